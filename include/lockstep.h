/* lockstep.h - the only header a training program includes. Each header it brings is one noun;
 * read them in this order. */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

/* clang-format off */
#include <lockstep/base.h>
#include <lockstep/call.h>
#include <lockstep/run.h>
#include <lockstep/device.h>
#include <lockstep/comm.h>
#include <lockstep/tensor.h>
#include <lockstep/ops.h>
#include <lockstep/state.h>
#include <lockstep/formats.h>
#include <lockstep/nn.h>
#include <lockstep/models.h>
#include <lockstep/optim.h>
#include <lockstep/checkpoint.h>
#include <lockstep/image.h>
#include <lockstep/data.h>
#include <lockstep/text.h>
#include <lockstep/qa.h>
#include <lockstep/profile.h>
#include <lockstep/track.h>
#include <lockstep/watch.h>
#include <lockstep/flags.h>
#include <lockstep/launch.h>
#include <lockstep/env.h>
#include <lockstep/missing.h>
#include <lockstep/version.h>
/* clang-format on */

#endif
