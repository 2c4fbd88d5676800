/* Splits what a model writes into its reasoning, between <think> and </think>, and the answer. The pieces may be cut
 * anywhere: the parts come out the same. Line breaks beside the tags, which templates put there, belong to neither part. */
#ifndef PAWL_SERVER_REASONING_H
#define PAWL_SERVER_REASONING_H

#include "base/buf.h"

typedef struct reasoning {
    enum { REASONING_START, REASONING_OPEN, REASONING_CLOSED } state;
    int answered;  /* something of the answer has come */
    pawl_buf held; /* what may be the beginning of a tag, or line breaks before one */
} reasoning;

/* open: the prompt already holds the opening tag. */
void reasoning_begin(reasoning *r, int open);
/* Appends what becomes certain with this piece to the two parts. */
void reasoning_push(reasoning *r, const char *text, size_t n, pawl_buf *thoughts, pawl_buf *answer);
/* The end of the text. */
void reasoning_finish(reasoning *r, pawl_buf *thoughts, pawl_buf *answer);
void reasoning_free(reasoning *r);

#endif
