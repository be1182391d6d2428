/* mnist_files.h - data for the tests of mnist: digits that are easy to tell apart. */
#ifndef LOCKSTEP_TESTS_MNIST_FILES_H
#define LOCKSTEP_TESTS_MNIST_FILES_H

#include <stdint.h>

#include "check.h"

enum { DIGIT_SIDE = 28 };

/* idx files: a magic number that tells type and dimensions, the sizes, the bytes. */
static void write_u32(FILE *file, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(value >> shift & 0xff), file);
}

/* "Digit" d is a bright block in one of ten places, on noise. */
static void write_digits(const char *folder, const char *which, uint32_t count)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte", folder, which);
    FILE *images = fopen(path, "wb");
    snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte", folder, which);
    FILE *labels = fopen(path, "wb");
    write_u32(images, 0x803);
    write_u32(labels, 0x801);
    for (int i = 0; i < 3; i++) write_u32(images, i ? DIGIT_SIDE : count);
    write_u32(labels, count);
    uint32_t random = count;
    for (uint32_t i = 0; i < count; i++) {
        int digit = (int)(i * 7 % 10), left = digit % 5 * 5 + 1, top = digit / 5 * 12 + 3;
        fputc(digit, labels);
        for (int y = 0; y < DIGIT_SIDE; y++) {
            for (int x = 0; x < DIGIT_SIDE; x++) {
                random = random * 1664525u + 1013904223u;
                bool bright = x >= left && x < left + 5 && y >= top && y < top + 9;
                fputc((int)(random >> 26) + (bright ? 150 : 0), images);
            }
        }
    }
    fclose(images);
    fclose(labels);
}

#endif
