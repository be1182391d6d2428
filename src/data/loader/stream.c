/* stream.c - batches from a stream: every rank reads all of it, round by round, and keeps its part.
 *
 * The last round is filled up with samples of the first, which are kept for that. A pass that begins in the middle
 * skips what was read before, without decoding if the stream supports it. */
#include "data/loader/prefetcher.h"

/* Is the last round filled up, so that the first must be kept? */
static bool keeps_first(const ls_shard *shard)
{
    return shard->world > 1 && shard->even && !shard->drop_last;
}

static int64_t round_size(const ls_shard *shard)
{
    return shard->batch * shard->world;
}

bool ls_stream_restart(ls_run *run, ls_prefetcher *prefetcher, const ls_shard *shard, int64_t epoch)
{
    struct ls_stream_position *stream = &prefetcher->stream;
    stream->shard = *shard;
    stream->epoch = epoch;
    stream->begun = stream->ended = false;
    if (keeps_first(shard) &&
        !ls_batch_slot_prepare_plain(run, &stream->first, &prefetcher->reading, round_size(shard)))
        return false;
    return ls_batch_slot_prepare_plain(run, &stream->spare, &prefetcher->reading, 1);
}

/* Write the next good sample to place `at` of `to`. False at the end of the stream, and after a failure. */
static bool read_one(ls_prefetcher *prefetcher, ls_batch_slot *slot, int64_t j, const ls_batch_slot *to, int64_t at,
                     ls_sample *sample)
{
    struct ls_stream_position *stream = &prefetcher->stream;
    ls_batch_slot_point(to, &prefetcher->reading, at, sample);
    for (;;) {
        sample->place = stream->read;
        if (ls_sample_next(sample, prefetcher->set)) break;
        if (sample->status == LS_OK) return stream->ended = true, false;
        if (prefetcher->set->on_bad != LS_ON_BAD_SKIP || sample->status != LS_ERR_IO) {
            ls_prefetcher_note_failure(prefetcher, slot, j, sample);
            return stream->ended = true, false;
        }
        ls_prefetcher_note_bad(prefetcher, slot, j, sample);
        stream->read++;
    }
    stream->read++;
    return true;
}

/* A sample that is not needed here. If bad samples are skipped, all ranks must find out which they are. */
static bool pass_over(ls_prefetcher *prefetcher, ls_batch_slot *slot, ls_sample *sample)
{
    sample->not_needed = prefetcher->set->on_bad != LS_ON_BAD_SKIP;
    bool there = read_one(prefetcher, slot, 0, &prefetcher->stream.spare, 0, sample);
    sample->not_needed = false;
    return there;
}

static bool keep_first(ls_prefetcher *prefetcher, ls_batch_slot *slot, ls_sample *sample)
{
    struct ls_stream_position *stream = &prefetcher->stream;
    if (!read_one(prefetcher, slot, 0, &stream->first, stream->first_kept, sample)) return false;
    stream->first_kept++;
    return true;
}

static bool first_is_kept(const struct ls_stream_position *stream)
{
    return !keeps_first(&stream->shard) || stream->first_kept == round_size(&stream->shard);
}

static void go_to_start(ls_prefetcher *prefetcher, ls_batch_slot *slot, ls_sample *sample)
{
    struct ls_stream_position *stream = &prefetcher->stream;
    const ls_dataset *set = prefetcher->set;
    stream->begun = true;
    stream->ended = false;
    stream->read = stream->first_kept = 0;
    if (set->begin) set->begin(stream->epoch, set->user);
    while (stream->read < stream->shard.start && !first_is_kept(stream))
        if (!keep_first(prefetcher, slot, sample)) return;
    if (set->skip && stream->read < stream->shard.start)
        stream->read += set->skip(stream->shard.start - stream->read, set->user);
    while (stream->read < stream->shard.start)
        if (!pass_over(prefetcher, slot, sample)) return;
}

/* Sample t of the round. */
static bool read_sample(ls_prefetcher *prefetcher, ls_batch_slot *slot, int64_t t, ls_sample *sample)
{
    struct ls_stream_position *stream = &prefetcher->stream;
    int64_t j = t - stream->shard.rank * stream->shard.batch;
    bool wanted = j >= 0 && j < stream->shard.batch;
    if (!first_is_kept(stream)) {
        if (!keep_first(prefetcher, slot, sample)) return false;
        if (wanted &&
            !ls_batch_slot_copy(slot, &prefetcher->reading, j, &stream->first, stream->first_kept - 1, sample))
            return ls_prefetcher_note_failure(prefetcher, slot, j, sample), false;
    } else if (wanted ? !read_one(prefetcher, slot, j, slot, j, sample) : !pass_over(prefetcher, slot, sample)) {
        return false;
    }
    if (wanted) slot->index[j] = stream->read - 1;
    return true;
}

int64_t ls_stream_fill(ls_prefetcher *prefetcher, ls_batch_slot *slot, ls_sample *sample)
{
    struct ls_stream_position *stream = &prefetcher->stream;
    const ls_shard *shard = &stream->shard;
    if (!stream->begun) go_to_start(prefetcher, slot, sample);
    int64_t got = 0, first = shard->rank * shard->batch;
    while (!stream->ended && got < round_size(shard) && read_sample(prefetcher, slot, got, sample)) got++;
    slot->real = got;
    slot->after = stream->read;
    if (got == round_size(shard)) return shard->batch;
    if (got == 0 || shard->drop_last) return 0;
    if (!keeps_first(shard)) return got <= first ? 0 : got - first < shard->batch ? got - first : shard->batch;
    for (int64_t j = got > first ? got - first : 0; j < shard->batch; j++) {
        int64_t again = (first + j - got) % stream->first_kept;
        slot->index[j] = again;
        if (!ls_batch_slot_copy(slot, &prefetcher->reading, j, &stream->first, again, sample))
            ls_prefetcher_note_failure(prefetcher, slot, j, sample);
    }
    return shard->batch;
}
