/* token.h - prove that two sides know the same job token without sending it: HMAC-SHA256 of the other side's challenge.
 * */
#ifndef LOCKSTEP_LAUNCH_CONTROL_TOKEN_H
#define LOCKSTEP_LAUNCH_CONTROL_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"

enum { LS_PROOF = LS_SHA256_HEX + 1 }; /* a proof is hexadecimal text with a terminating zero */

/* A random challenge, as text. */
void ls_token_challenge(char text[LS_PROOF]);

/* The answer to a challenge by a holder of the token. `role` keeps the answers of the two sides apart. */
void ls_token_prove(const char *token, const char *role, const char *challenge, char proof[LS_PROOF]);

/* Compares in constant time. NULL is not a proof. */
bool ls_token_same(const char *proof, const char *expected);

#endif
