/* feed.c - the stack of running loops over batches. */
#include "tensor/feed.h"

#include "tensor/context.h"

/* Take this feed, and what runs inside it, off the stack. */
static void stop(ls_run *run, ls_feed *feed)
{
    while (feed->running) {
        ls_feed *top = run->feed;
        run->feed = top->outer;
        top->running = false;
        top->outer = NULL;
    }
}

void ls_feed_batch(ls_run *run, ls_feed *feed)
{
    ls_feed *outer = feed->running ? feed->outer : run->feed;
    stop(run, feed);
    feed->outer = outer;
    feed->running = true;
    feed->counted = false;
    feed->finished = false;
    run->feed = feed;
}

void ls_feed_end(ls_run *run, ls_feed *feed)
{
    /* A loop that found nothing to read never ran: then the one at work, if any, is around it. */
    feed->finished = !(feed->running ? feed->outer : run->feed);
    stop(run, feed);
}

void ls_feed_forget(ls_run *run, ls_feed *feed)
{
    stop(run, feed);
    feed->finished = false;
}
