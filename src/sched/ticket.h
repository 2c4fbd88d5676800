/* Whose turn it is. A sequence has one ticket from the moment it came until it ends, so a preempted one does not lose its
 * place. */
#ifndef PAWL_SCHED_TICKET_H
#define PAWL_SCHED_TICKET_H

#include <stdint.h>

enum { PAWL_TICKET_SECONDS = 10 }; /* waiting so long is worth one step of priority: nobody starves */

typedef struct pawl_ticket {
    int32_t priority; /* larger first */
    uint64_t order;   /* of arrival */
    double since;     /* when it came, seconds of a monotonic clock */
} pawl_ticket;

/* True when a goes before b. */
int pawl__ticket_before(const pawl_ticket *a, const pawl_ticket *b, double now);

#endif
