/* generation_config.json: how a checkpoint's makers want it sampled, and where its answers end. Untrusted, optional. */
#ifndef PAWL_TOKEN_GENCONFIG_H
#define PAWL_TOKEN_GENCONFIG_H

#include <stdint.h>

#include "base/status.h"

enum { PAWL_GENCONFIG_MAX_EOS = 32 };

typedef struct pawl_genconfig {
    int32_t eos[PAWL_GENCONFIG_MAX_EOS]; /* the stop set; empty when nobody names one */
    unsigned n_eos;
    int32_t bos, pad;                           /* -1 when not given */
    int do_sample;                              /* 0: greedy unless a request says otherwise; the default */
    double temperature;                         /* default 1 */
    int64_t top_k;                              /* 0: off, the default */
    double top_p, min_p;                        /* default 1 and 0: off */
    double repetition_penalty;                  /* default 1: off */
    double presence_penalty, frequency_penalty; /* default 0: off */
    int64_t max_new_tokens;                     /* 0: not given */
} pawl_genconfig;

/* dir: the checkpoint's folder. A missing file is PAWL_OK and gives the defaults. fallback: config.json's eos_token_id,
 * taken only when the file names none. PAWL_EFORMAT names file and key for a wrong type or a value out of range. */
pawl_status pawl__genconfig_open(const char *dir, const int32_t *fallback, unsigned n_fallback, pawl_genconfig *out,
                                 pawl_err *err);

#endif
