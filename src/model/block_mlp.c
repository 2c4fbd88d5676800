#include "model/blocks.h"

#include <string.h>

#include "op/act.h"
#include "store/weights.h"

pawl_status pawl__builder_enter(pawl_builder *b, const char *module, pawl_builder_mark *mark, pawl_err *err)
{
    size_t n = strlen(module);
    mark->prefix = strlen(b->prefix);
    mark->where = strlen(b->where);
    if (mark->prefix + n + 2 > sizeof b->prefix || mark->where + n + 2 > sizeof b->where)
        return pawl__fail(err, PAWL_EINTERNAL, "%s%s: name too long", b->prefix, module);
    memcpy(b->prefix + mark->prefix, module, n);
    memcpy(b->prefix + mark->prefix + n, ".", 2);
    memcpy(b->where + mark->where, module, n);
    memcpy(b->where + mark->where + n, ".", 2);
    return PAWL_OK;
}

void pawl__builder_leave(pawl_builder *b, pawl_builder_mark mark)
{
    b->prefix[mark.prefix] = 0;
    b->where[mark.where] = 0;
}

pawl_status pawl__mlp_load(pawl_builder *b, const char *module, pawl_mlp_block *p, pawl_err *err)
{
    pawl_builder_mark mark;
    PAWL_TRY(pawl__builder_enter(b, module, &mark, err));
    PAWL_TRY(pawl__linear_load(b, "gate_proj", p->width, p->hidden, 0, &p->gate, err));
    PAWL_TRY(pawl__linear_load(b, "up_proj", p->width, p->hidden, 0, &p->up, err));
    PAWL_TRY(pawl__linear_load(b, "down_proj", p->hidden, p->width, 0, &p->down, err));
    pawl_query q = pawl__builder_query(b, PAWL_OP_ACT);
    q.n = p->width;
    q.flags = PAWL_QF_GATED;
    PAWL_TRY(pawl__builder_add(b, &q, "act", &p->act, err));
    pawl__builder_leave(b, mark);
    return PAWL_OK;
}

int64_t pawl__mlp_row_floats(const pawl_mlp_block *p)
{
    return 2 * p->width;
}

pawl_status pawl__mlp_run(pawl_step *s, const pawl_mlp_block *p, const float *x, float *y)
{
    float *g = pawl__step_floats(s, s->m, p->width), *u = pawl__step_floats(s, s->m, p->width);
    if (!g || !u) return PAWL_EINTERNAL;
    PAWL_TRY(pawl__linear_run(s, &p->gate, s->m, x, p->hidden, g, p->width, "gate_proj"));
    PAWL_TRY(pawl__linear_run(s, &p->up, s->m, x, p->hidden, u, p->width, "up_proj"));
    pawl_act_args a = {.m = s->m,
                       .n = p->width,
                       .g = g,
                       .u = u,
                       .g_row = p->width,
                       .u_row = p->width,
                       .out = g,
                       .out_row = p->width,
                       .act = PAWL_ACT_SILU};
    PAWL_TRY(pawl__step_run(s, p->act, s->m, &a, "act", g, p->width, p->width));
    return pawl__linear_run(s, &p->down, s->m, g, p->width, y, p->hidden, "down_proj");
}
