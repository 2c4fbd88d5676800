/* Whole files: read into memory, or mapped read-only. */
#ifndef PAWL_BASE_FILE_H
#define PAWL_BASE_FILE_H

#include <stddef.h>

#include "base/status.h"

/* Reads a regular file of at most max bytes. *data is terminated (the terminator is not in *n) and owned by the caller
 * (free). PAWL_EIO when it cannot be opened or read; PAWL_EFORMAT when it is larger than max or no regular file. */
pawl_status pawl__file_read(const char *path, size_t max, char **data, size_t *n, pawl_err *err);

typedef struct pawl_map {
    const unsigned char *data; /* NULL when the file is empty */
    size_t size;
    const char *path; /* owned by the map; named when a SIGBUS tells that the file was cut while in use */
} pawl_map;

/* Maps a regular file read-only. */
pawl_status pawl__map_open(const char *path, pawl_map *out, pawl_err *err);
void pawl__map_close(pawl_map *m);
/* The path of the open map that holds this address, or NULL. Async-signal-safe: for a SIGBUS handler. */
const char *pawl__map_owner(const void *address);

/* dir + "/" + name into out; PAWL_EINVAL when it does not fit. */
pawl_status pawl__path_join(char *out, size_t cap, const char *dir, const char *name, pawl_err *err);
int pawl__file_exists(const char *path);

#endif
