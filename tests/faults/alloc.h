/* This program's own malloc and its kin (alloc.c): they count the calls of every thread and library, make one of them
 * fail on request, and otherwise pass them on to the C library's. Not for sanitizer builds, which bring their own. */
#ifndef PAWL_TESTS_FAULTS_ALLOC_H
#define PAWL_TESTS_FAULTS_ALLOC_H

/* Allocations asked for since the program started. */
long alloc_calls(void);
/* Blocks that were allocated and not freed. */
long alloc_live(void);
/* The n-th allocation from now on fails, n >= 1; 0: none does. */
void alloc_fail_nth(long n);
/* Whether the last alloc_fail_nth was reached. */
int alloc_failed(void);

#endif
