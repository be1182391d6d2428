/* token.c - challenges, and answers to them by holders of the job token. */
#include "launch/control/token.h"

#include "launch/control/hex.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

void ls_token_challenge(char text[LS_PROOF])
{
    uint8_t number[LS_SHA256_BYTES];
    if (getrandom(number, sizeof number, 0) != (ssize_t)sizeof number) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        ls_sha256 hash;
        ls_sha256_begin(&hash);
        ls_sha256_add(&hash, &now, sizeof now);
        ls_sha256_end(&hash, number);
    }
    ls_hex_write(number, sizeof number, text);
}

void ls_token_prove(const char *token, const char *role, const char *challenge, char proof[LS_PROOF])
{
    ls_hmac mac;
    ls_hmac_begin(&mac, token, strlen(token));
    ls_hmac_add(&mac, role, strlen(role));
    ls_hmac_add(&mac, challenge, strlen(challenge));
    ls_hmac_end(&mac, proof);
}

bool ls_token_same(const char *proof, const char *expected)
{
    if (!proof || strlen(proof) != strlen(expected)) return false;
    return ls_equal_in_constant_time(proof, expected, strlen(expected));
}
