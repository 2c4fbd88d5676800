/* What this machine gives at this moment: how fast memory is read, and how many multiply-adds a second its vector units do.
 * Figures of a bench are shares of these, measured in the same run: machines differ, and so do their hours. */
#ifndef PAWL_BENCH_MACHINE_H
#define PAWL_BENCH_MACHINE_H

#include <stdint.h>

#include "base/pool.h"

/* Seconds of a clock that only moves forward. */
double bench_now(void);

/* Runs fn once, then again until `seconds` have passed, at least 3 times; the median of the later times in seconds. */
double bench_median_time(void (*fn)(void *), void *ctx, double seconds);

typedef struct machine machine;

typedef struct machine_rates {
    double read; /* bytes/s */
    double fma;  /* f32 flop/s, two a multiply-add; 0: not known how to measure here */
    double int8; /* integer op/s, two a multiply-add of bytes into 32 bits; 0: the same */
} machine_rates;

/* The pool is borrowed; its threads are what is measured. isa: PAWL_ISA_*, which may be used. NULL: out of memory. */
machine *machine_open(pawl_pool *pool, uint64_t isa);
void machine_close(machine **m);
/* Measures for about a third of a second. */
void machine_measure(machine *m, machine_rates *out);

#endif
