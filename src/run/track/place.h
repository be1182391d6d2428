/* place.h - which process of the job this is: ls_rank(), ls_world(). */
#ifndef LOCKSTEP_RUN_TRACK_PLACE_H
#define LOCKSTEP_RUN_TRACK_PLACE_H

#include "run/session.h"

#endif
