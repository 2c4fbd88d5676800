/* A ragged batch: rows of several sequences one after another. Prefill, decode, verification of drafts and an idle rank's
 * empty step differ only in the segments. */
#ifndef PAWL_OP_SEG_H
#define PAWL_OP_SEG_H

#include <stdint.h>

/* Rows row0 .. row0+rows-1 of the batch are consecutive positions pos0 .. of one sequence. */
typedef struct pawl_seg {
    int32_t row0, rows;
    int32_t pos0;
    int32_t slot;   /* recurrent-state slot; -1: padding (no state is read or written, outputs are zero) */
    int32_t page0;  /* where this sequence's page numbers begin in the batch's page table */
    int32_t verify; /* 1: rows may be rolled back: recurrent states stay as they were and the rows' inputs are logged */
    int32_t log0;   /* verify: first row of the log that this segment's rows go to */
} pawl_seg;

enum { PAWL_KV_PAGE = 16 /* positions in a KV page */ };

#endif
