/* Policies from what the user wrote. Ids are replaced by the table's own strings, so a policy owns nothing. */
#include "route/policy.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

pawl_policy pawl__policy_default(void)
{
    pawl_policy p;
    memset(&p, 0, sizeof p);
    p.isa_mask = ~(uint64_t)0;
    return p;
}

pawl_policy pawl__policy_draft(const pawl_policy *target)
{
    pawl_policy p = *target;
    p.soft_forces = 1;
    return p;
}

const pawl_kernel *pawl__kernel_find(const pawl_kernel_table *table, const char *id, size_t n)
{
    for (int op = 0; op < PAWL_OP_COUNT; op++) {
        if (!table->list[op]) continue;
        for (pawl_kernel_list k = table->list[op]; *k; k++) {
            if (strlen((*k)->id) == n && memcmp((*k)->id, id, n) == 0) return *k;
        }
    }
    return NULL;
}

/* The ids of one op's list, as many as fit. */
static void list_ids(pawl_kernel_list list, char *out, size_t cap)
{
    size_t n = 0;
    out[0] = 0;
    for (pawl_kernel_list k = list; k && *k; k++) {
        int w = snprintf(out + n, cap - n, "%s%s", n ? ", " : "", (*k)->id);
        if (w < 0 || (size_t)w >= cap - n) {
            out[n] = 0;
            return;
        }
        n += (size_t)w;
    }
}

pawl_status pawl__policy_force(pawl_policy *p, const char *text, const pawl_kernel_table *table, pawl_err *err)
{
    size_t eq = strcspn(text, "=");
    if (!text[eq]) return pawl__fail(err, PAWL_EINVAL, "forced kernel \"%.80s\": expected OP=ID", text);
    pawl_op op = pawl__op_parse(text, eq);
    if (op == PAWL_OP_COUNT) {
        return pawl__fail(err, PAWL_EINVAL, "forced kernel \"%.80s\": unknown op; expected one such as linear or moe",
                          text);
    }
    const char *id = text + eq + 1;
    const pawl_kernel *k = pawl__kernel_find(table, id, strlen(id));
    if (!k || k->op != op) {
        char known[300];
        list_ids(table->list[op], known, sizeof known);
        return pawl__fail(err, PAWL_EINVAL, "op %s has no kernel \"%.60s\"; there are: %s", pawl__op_word(op), id,
                          known);
    }
    if (p->n_forces == PAWL_POLICY_FORCES) {
        return pawl__fail(err, PAWL_EINVAL, "more than %d forced kernels", PAWL_POLICY_FORCES);
    }
    p->forces[p->n_forces++] = (pawl_force){op, k->id};
    return PAWL_OK;
}

pawl_status pawl__policy_ban(pawl_policy *p, const char *id, const pawl_kernel_table *table, pawl_err *err)
{
    const pawl_kernel *k = pawl__kernel_find(table, id, strlen(id));
    if (!k) return pawl__fail(err, PAWL_EINVAL, "banned kernel \"%.80s\": no kernel has this id", id);
    if (p->n_bans == PAWL_POLICY_BANS) {
        return pawl__fail(err, PAWL_EINVAL, "more than %d banned kernels", PAWL_POLICY_BANS);
    }
    p->bans[p->n_bans++] = k->id;
    return PAWL_OK;
}
