/* What a model family provides, and the records behind pawl_net. For model/<arch>.c and net.c only. */
#ifndef PAWL_MODEL_FAMILY_H
#define PAWL_MODEL_FAMILY_H

#include "model/net.h"
#include "model/step.h"

typedef struct pawl_family {
    const char *const *model_types; /* root model_type values, NULL at the end */
    /* Reads the config and the weights into net->model (from net->arena) and fills net->dims, type and eos. */
    pawl_status (*open)(pawl_net *net, pawl_checkpoint *ck, pawl_err *err);
    pawl_status (*forward)(const pawl_net *net, pawl_step *s, const pawl_forward *f);
    pawl_status (*draft)(const pawl_net *net, pawl_step *s, const pawl_forward *f);
    pawl_status (*commit)(const pawl_net *net, pawl_step *s);
} pawl_family;

struct pawl_net {
    const pawl_family *family;
    pawl_plan *plan;
    pawl_arena *arena;
    pawl_net_options opt;
    pawl_net_dims dims;
    const char *type;
    int64_t eos[8];
    int n_eos;
    void *model;
};

extern const pawl_family pawl__family_qwen3_5;
/* NULL at the end; model/registry.c. */
extern const pawl_family *const pawl__families[];

#endif
