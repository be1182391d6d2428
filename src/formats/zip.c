/* zip.c - zip files, also those with 64-bit sizes. Every offset is checked before it is followed. */
#include "formats/zip.h"

#include <stdlib.h>
#include <string.h>
#ifdef LOCKSTEP_WITH_ZLIB
#include <zlib.h>
#endif

#include "base/budget.h"
#include "base/crc.h"
#include "formats/bytes.h"

enum {
    END_SIZE = 22,
    END64_SIZE = 56,
    LOCATOR64_SIZE = 20,
    CENTRAL_SIZE = 46,
    LOCAL_SIZE = 30,
    MAX_COMMENT = 65535,
};
#define ZIP_END 0x06054b50u
#define ZIP_END64 0x06064b50u
#define ZIP_LOCATOR64 0x07064b50u
#define ZIP_CENTRAL 0x02014b50u
#define ZIP_LOCAL 0x04034b50u

typedef struct directory {
    uint64_t begin, size, count;
} directory;

/* Is [at, at + size) within the file? */
static bool within(const ls_pages *pages, uint64_t at, uint64_t size)
{
    return at <= pages->size && size <= pages->size - at;
}

static bool find_directory(ls_archive *a, const ls_pages *pages, directory *d)
{
    const char *bytes = pages->bytes;
    uint64_t size = pages->size, lowest = size > END_SIZE + MAX_COMMENT ? size - END_SIZE - MAX_COMMENT : 0, at = size;
    bool found = false;
    for (at = size >= END_SIZE ? size - END_SIZE + 1 : 0; !found && at-- > lowest;)
        found = ls_u32(bytes + at) == ZIP_END && at + END_SIZE + ls_u16(bytes + at + 20) == size;
    if (!found) return ls_archive_fail(a, "the directory of the zip file is missing: the file is truncated");
    *d = (directory){ls_u32(bytes + at + 16), ls_u32(bytes + at + 12), ls_u16(bytes + at + 10)};
    if (at >= LOCATOR64_SIZE && ls_u32(bytes + at - LOCATOR64_SIZE) == ZIP_LOCATOR64) {
        uint64_t end64 = ls_u64(bytes + at - LOCATOR64_SIZE + 8);
        if (!within(pages, end64, END64_SIZE) || ls_u32(bytes + end64) != ZIP_END64)
            return ls_archive_fail(a, "the directory of the zip file is damaged");
        *d = (directory){ls_u64(bytes + end64 + 48), ls_u64(bytes + end64 + 40), ls_u64(bytes + end64 + 32)};
    }
    if (!within(pages, d->begin, d->size) || d->count > d->size / CENTRAL_SIZE)
        return ls_archive_fail(a, "the directory of the zip file is damaged");
    return true;
}

/* Sizes and offsets that do not fit into 32 bits are in an extra field, in this order. */
static bool read_zip64(const char *extra, size_t length, uint64_t *const wide[3])
{
    while (length >= 4) {
        size_t size = ls_u16(extra + 2), used = 0;
        if (size > length - 4) return false;
        for (int i = 0; ls_u16(extra) == 1 && i < 3; i++) {
            if (*wide[i] != UINT32_MAX) continue;
            if (used + 8 > size) return false;
            *wide[i] = ls_u64(extra + 4 + used);
            used += 8;
        }
        extra += 4 + size;
        length -= 4 + size;
    }
    return true;
}

/* Read the directory entry at `at`, with `room` bytes available; returns its length, 0 if it is damaged. */
static uint64_t read_central(ls_archive *a, const ls_pages *pages, const char *at, uint64_t room, ls_zip_file *file)
{
    if (room < CENTRAL_SIZE || ls_u32(at) != ZIP_CENTRAL) return 0;
    uint64_t name = ls_u16(at + 28), extra = ls_u16(at + 30), comment = ls_u16(at + 32), offset = ls_u32(at + 42);
    uint64_t length = CENTRAL_SIZE + name + extra + comment;
    if (length > room || memchr(at + CENTRAL_SIZE, 0, name)) return 0;
    file->name = ls_archive_text(a, at + CENTRAL_SIZE, name);
    if (!file->name) return 0;
    unsigned flags = ls_u16(at + 8), method = ls_u16(at + 10);
    file->crc = ls_u32(at + 16);
    file->packed_size = ls_u32(at + 20);
    file->size = ls_u32(at + 24);
    if (!read_zip64(at + CENTRAL_SIZE + name, extra, (uint64_t *const[]){&file->size, &file->packed_size, &offset}))
        return 0;
    if ((flags & 1) || (method != 0 && method != 8))
        return ls_archive_fail_with(a, LS_ERR_UNSUPPORTED, "%s in it is %s", file->name,
                                    flags & 1 ? "encrypted" : "compressed with an unknown method"),
               0;
    file->deflated = method == 8;
    if (!within(pages, offset, LOCAL_SIZE) || ls_u32(pages->bytes + offset) != ZIP_LOCAL) return 0;
    uint64_t data = offset + LOCAL_SIZE + ls_u16(pages->bytes + offset + 26) + ls_u16(pages->bytes + offset + 28);
    if (!within(pages, data, file->packed_size) || (!file->deflated && file->packed_size != file->size)) return 0;
    file->packed = pages->bytes + data;
    return length;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const ls_zip_file *)a)->name, ((const ls_zip_file *)b)->name);
}

bool ls_zip_open(ls_archive *a, ls_pages *pages, ls_zip *zip)
{
    directory d = {0};
    if (!find_directory(a, pages, &d)) return false;
    *zip = (ls_zip){.pages = pages, .count = (int64_t)d.count};
    zip->files = ls_archive_take(a, d.count * sizeof *zip->files);
    if (!zip->files) return false;
    const char *at = pages->bytes + d.begin;
    for (uint64_t i = 0, room = d.size, length; i < d.count; i++, at += length, room -= length) {
        length = read_central(a, pages, at, room, &zip->files[i]);
        if (!length) return ls_archive_fail(a, "entry %llu of the zip file is damaged", (unsigned long long)i);
    }
    qsort(zip->files, (size_t)zip->count, sizeof *zip->files, compare);
    for (int64_t i = 1; i < zip->count; i++)
        if (compare(&zip->files[i - 1], &zip->files[i]) == 0)
            return ls_archive_fail(a, "%s is in the zip file twice", zip->files[i].name);
    return true;
}

ls_zip_file *ls_zip_find(const ls_zip *zip, const char *name)
{
    ls_zip_file wanted = {.name = name};
    return zip->count ? bsearch(&wanted, zip->files, (size_t)zip->count, sizeof wanted, compare) : NULL;
}

#ifdef LOCKSTEP_WITH_ZLIB
static bool inflate_all(const ls_zip_file *file, char *to)
{
    z_stream stream = {.next_in = (Bytef *)file->packed, .next_out = (Bytef *)to};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
    uint64_t in = file->packed_size, out = file->size;
    int status = Z_OK;
    while (status == Z_OK) { /* zlib counts in 32 bits */
        uInt some_in = in < UINT32_MAX ? (uInt)in : UINT32_MAX, some_out = out < UINT32_MAX ? (uInt)out : UINT32_MAX;
        stream.avail_in = some_in;
        stream.avail_out = some_out;
        status = inflate(&stream, Z_NO_FLUSH);
        in -= some_in - stream.avail_in;
        out -= some_out - stream.avail_out;
        if (status == Z_OK && some_in == stream.avail_in && some_out == stream.avail_out) break;
    }
    inflateEnd(&stream);
    return status == Z_STREAM_END && out == 0;
}

static bool unpack(ls_archive *a, ls_zip_file *file)
{
    if (file->size / LS_BUDGET_RATIO > file->packed_size)
        return ls_archive_fail(a, "%s in it has a wrong size", file->name);
    ls_pages *pages = ls_archive_unpack(a, file->size);
    if (!pages) return false;
    if (!inflate_all(file, pages->bytes)) return ls_archive_fail(a, "%s in it is damaged", file->name);
    file->pages = pages;
    file->bytes = pages->bytes;
    return true;
}
#else
static bool unpack(ls_archive *a, ls_zip_file *file)
{
    return ls_archive_fail_with(a, LS_ERR_UNSUPPORTED,
                                "%s in it is compressed, but this library was built without zlib", file->name);
}
#endif

bool ls_zip_fetch(ls_archive *a, ls_zip *zip, ls_zip_file *file)
{
    if (file->pages) return true;
    if (file->deflated) {
        if (!unpack(a, file)) return false;
    } else {
        file->pages = zip->pages;
        file->bytes = file->packed;
    }
    if (file->crc && ls_crc32(0, file->bytes, file->size) != file->crc)
        return ls_archive_fail(a, "%s in it is damaged: its checksum differs", file->name);
    return true;
}
