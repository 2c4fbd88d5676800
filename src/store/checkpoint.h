/* A checkpoint folder: config.json, and tensors in one model.safetensors or in shards listed by
 * model.safetensors.index.json.
 *
 * The checkpoint owns the maps, the parsed JSON and an arena; tensors, views of weights (store/weights.h) and converted
 * scales borrow from it and die with it. Look-ups may mark a tensor as used: what nobody used when a model has been built
 * is listed as a warning, because a tensor that nobody reads is usually a name that somebody misread.
 * Not thread-safe while a model is being built; read-only afterwards. */
#ifndef PAWL_STORE_CHECKPOINT_H
#define PAWL_STORE_CHECKPOINT_H

#include <jansson.h>

#include "base/arena.h"
#include "store/safetensors.h"

typedef struct pawl_checkpoint pawl_checkpoint;

/* Called now and then once opening or building has taken more than a moment (300 ms): what is being done, and how much of
 * it is done, 0 to 1. A nonzero return cancels with PAWL_ECANCELED. */
typedef int (*pawl_progress_fn)(void *ctx, const char *what, double done);

typedef struct pawl_checkpoint_opts {
    pawl_progress_fn progress; /* may be NULL */
    void *ctx;
} pawl_checkpoint_opts;

/* Opens a folder. opts may be NULL. Every shard is mapped and checked; the quantisation settings in config.json and
 * hf_quant_config.json are compared with the tensors and only warn (pawl__checkpoint_warning). */
pawl_status pawl__checkpoint_open(const char *dir, const pawl_checkpoint_opts *opts, pawl_checkpoint **out,
                                  pawl_err *err);
/* *ck may be NULL. */
void pawl__checkpoint_close(pawl_checkpoint **ck);

const char *pawl__checkpoint_dir(const pawl_checkpoint *ck);
/* The whole config.json, an object, borrowed. */
const json_t *pawl__checkpoint_config(const pawl_checkpoint *ck);
/* quantization_config of config.json (always at its root) and the whole hf_quant_config.json; NULL when absent. */
const json_t *pawl__checkpoint_quant_config(const pawl_checkpoint *ck);
const json_t *pawl__checkpoint_hf_quant(const pawl_checkpoint *ck);
/* Memory that lives as long as the checkpoint. */
pawl_arena *pawl__checkpoint_arena(pawl_checkpoint *ck);

/* Tensors: iteration file by file in the order of their data; look-up by name (NULL when absent). */
size_t pawl__checkpoint_count(const pawl_checkpoint *ck);
const pawl_tensor *pawl__checkpoint_at(const pawl_checkpoint *ck, size_t i);
const pawl_tensor *pawl__checkpoint_find(const pawl_checkpoint *ck, const char *name);
/* As find, and the tensor counts as used. */
const pawl_tensor *pawl__checkpoint_use(pawl_checkpoint *ck, const char *name);
/* Path of the file that holds a tensor. */
const char *pawl__checkpoint_file(const pawl_checkpoint *ck, const pawl_tensor *t);

/* Used marks. Visual tensors ("model.visual.", "visual.") and scales of a quantised KV cache or of static activations are
 * expected to stay unused: `unused` passes over them. */
int pawl__checkpoint_used(const pawl_checkpoint *ck, size_t i);
int pawl__tensor_expected_unused(const pawl_tensor *t);
/* Number of tensors that nobody used although they were expected to be; the first few become warnings, and a log line. */
size_t pawl__checkpoint_warn_unused(pawl_checkpoint *ck);

/* Brings the bytes of all used tensors into memory in the background, from now on until the checkpoint is closed; call it
 * when the model has been built. Does nothing when they are more than `most` bytes: they would push one another out. */
void pawl__checkpoint_read_ahead(pawl_checkpoint *ck, uint64_t most);

/* Warnings so far, oldest first; NULL from the last on. They are also logged. At most 64 are kept. */
const char *pawl__checkpoint_warning(const pawl_checkpoint *ck, size_t i);
void pawl__checkpoint_warn(pawl_checkpoint *ck, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Reports progress when the time has come; PAWL_ECANCELED when the callback says so. Cheap enough to call per tensor. */
pawl_status pawl__checkpoint_tick(pawl_checkpoint *ck, const char *what, pawl_err *err);

#endif
