/* A hash table from tensor names to indexes, for names that strangers choose: the hash is keyed by a random word of this
 * process, so that a file cannot be built to make look-ups quadratic. */
#ifndef PAWL_STORE_NAMES_H
#define PAWL_STORE_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define PAWL_NAMES_NONE UINT32_MAX

typedef struct pawl_names {
    struct {
        const char *name; /* borrowed */
        uint32_t len, index;
    } * slot;
    size_t mask; /* slots - 1, a power of two; at least half of them stay free */
    size_t count, max;
    uint64_t key;
} pawl_names;

/* Room for max names. 0, or -1 when out of memory. */
int pawl__names_init(pawl_names *t, size_t max);
void pawl__names_free(pawl_names *t);
/* PAWL_NAMES_NONE when absent. */
uint32_t pawl__names_find(const pawl_names *t, const char *name, size_t len);
/* Adds a name unless it is there: returns PAWL_NAMES_NONE when added, else the index that the name already has. No more
 * than max names may be added; the bytes must outlive the table. */
uint32_t pawl__names_add(pawl_names *t, const char *name, size_t len, uint32_t index);

#endif
