/* The tuning file: measured crossovers of one machine, as rows for a policy's thresholds.
 *
 * JSON, at most 1 MiB: {"schema": "pawl.tune/1", "fingerprint": {"caps", "processor", "driver", "version"},
 * "entries": [{"query": "linear ... m=* ...", "spans": [{"from": 1, "kernel": "...", "ns": 1234.5}, ...]}]}.
 * A span reaches to the next one's from; the last has no end. A file that is stale, of another machine, damaged, or names
 * an unknown kernel is ignored as a whole, with one line in the log. */
#ifndef PAWL_ROUTE_TUNING_H
#define PAWL_ROUTE_TUNING_H

#include "base/buf.h"
#include "route/policy.h"

enum { PAWL_TUNING_MAX_BYTES = 1 << 20, PAWL_TUNING_MAX_ENTRIES = 1024 };

typedef struct pawl_tuning {
    pawl_thresholds thresholds; /* what a policy points to */
    pawl_threshold *rows;       /* owned */
} pawl_tuning;

/* n bytes of text; name is for messages. PAWL_EFORMAT: damaged; PAWL_EUNSUPPORTED: of another machine or version, or an
 * unknown kernel. On failure *out is empty. */
pawl_status pawl__tuning_parse(const char *text, size_t n, const char *name, const pawl_kernel_table *table,
                               const pawl_caps *caps, pawl_tuning *out, pawl_err *err);
/* Reads the file if there is one. Anything wrong with it: empty, and one line in the log. */
void pawl__tuning_load(const char *path, const pawl_kernel_table *table, const pawl_caps *caps, pawl_tuning *out);
void pawl__tuning_free(pawl_tuning *t);

/* $XDG_CACHE_HOME/pawl/tune-<fingerprint>.json, with ~/.cache where the variable is unset. Nothing is appended when
 * neither is known. */
void pawl__tuning_path(const pawl_caps *caps, pawl_buf *out);

#endif
