/* token.h - proof that two sides know the same job token, without sending it: HMAC-SHA256 of the other's number. */
#ifndef LOCKSTEP_LAUNCH_CONTROL_TOKEN_H
#define LOCKSTEP_LAUNCH_CONTROL_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_DIGEST = 32, LS_PROOF = 2 * LS_DIGEST + 1 }; /* a proof is text: hexadecimal, with its end */

void ls_sha256(const void *bytes, size_t size, uint8_t digest[LS_DIGEST]);

/* A number nobody can guess, as text. */
void ls_token_challenge(char text[LS_PROOF]);

/* What whoever knows the token answers to a challenge. `role` keeps the answers of the two sides apart. */
void ls_token_prove(const char *token, const char *role, const char *challenge, char proof[LS_PROOF]);

/* Compares in a time that does not depend on where they differ. NULL is no proof. */
bool ls_token_same(const char *proof, const char *expected);

#endif
