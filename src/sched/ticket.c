#include "sched/ticket.h"

static double worth(const pawl_ticket *t, double now)
{
    return t->priority + (double)(int64_t)((now - t->since) / PAWL_TICKET_SECONDS);
}

int pawl__ticket_before(const pawl_ticket *a, const pawl_ticket *b, double now)
{
    double x = worth(a, now), y = worth(b, now);
    return x != y ? x > y : a->order < b->order;
}
