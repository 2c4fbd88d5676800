/* Shared by inspect.c (which counts) and inspect_print.c (which prints). */
#ifndef PAWL_TOOL_INSPECT_INTERNAL_H
#define PAWL_TOOL_INSPECT_INTERNAL_H

#include "model/net.h"
#include "quant/quant.h"
#include "store/checkpoint.h"
#include "store/names.h"
#include "tool/inspect.h"

typedef struct pawl_tally {
    int64_t tensors;
    uint64_t bytes;
} pawl_tally;

/* All matrices whose names differ only in numbers, in one format. */
typedef struct pawl_module_row {
    const char *name; /* "model.layers.*.mlp.experts.*.gate_proj" */
    pawl_quant q;
    pawl_tally sum;
} pawl_module_row;

typedef struct pawl_inventory {
    pawl_checkpoint *ck;
    const pawl_net_dims *dims; /* NULL: no model could be built */
    const char *type;          /* model_type, NULL when there is none */
    const char *problem;       /* why not, NULL when it could */

    pawl_tally format[PAWL_QUANT_COUNT]; /* codes and their scales; NONE: what holds no weights */
    pawl_tally total, draft, vision;
    int64_t parameters, active, draft_parameters, vision_parameters; /* the first two without draft and vision */
    pawl_tally draft_format[PAWL_QUANT_COUNT];
    int64_t moe_layers, dense_layers; /* MLPs of the text model, by what lies in the files */
    int64_t unused;                   /* that were expected to be used; 0 without a model */

    pawl_module_row *module;
    size_t modules, modules_cap;
    pawl_names names; /* of rows, keyed by "format name" */
} pawl_inventory;

enum { PAWL_INSPECT_MODULES = 4096 };

void pawl__inspect_text(const pawl_inventory *v, int tensors, pawl_buf *out);
pawl_status pawl__inspect_json(const pawl_inventory *v, int tensors, pawl_buf *out, pawl_err *err);

/* f32 keys and values of one position, the draft layer's included; recurrent and convolution states of one sequence. */
int64_t pawl__inspect_kv_bytes(const pawl_net_dims *d);
int64_t pawl__inspect_state_bytes(const pawl_net_dims *d);
/* A tensor that a model should have used and did not. */
int pawl__inspect_unused(const pawl_inventory *v, size_t i);

#endif
