/* Brings pages of mapped files into memory, and into this process's page table, on a thread of its own, so that the first
 * use of a weight does not wait for a disk or a page fault. Nothing depends on it: a page that it has not reached yet comes
 * when it is touched. */
#ifndef PAWL_BASE_READAHEAD_H
#define PAWL_BASE_READAHEAD_H

#include <stddef.h>
#include <stdint.h>

typedef struct pawl_readahead pawl_readahead;

typedef struct pawl_range {
    const unsigned char *data; /* inside a map that stays until pawl__readahead_stop */
    size_t bytes;
} pawl_range;

/* Starts with the first range; the ranges are copied. NULL when there is no memory or no thread for it. */
pawl_readahead *pawl__readahead_start(const pawl_range *ranges, size_t n);
/* Bytes that were gone through so far; from any thread. */
uint64_t pawl__readahead_done(const pawl_readahead *r);
/* Ends the thread within a few milliseconds, or what one read of the disk takes. *r may be NULL. */
void pawl__readahead_stop(pawl_readahead **r);

#endif
