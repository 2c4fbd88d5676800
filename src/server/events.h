/* The engine's events on their way to the loop: copied into a byte string on the engine's thread, read back from it on the
 * loop's. The string is private to one process, so the records are plain structs in it. */
#ifndef PAWL_SERVER_EVENTS_H
#define PAWL_SERVER_EVENTS_H

#include "base/buf.h"
#include "pawl/engine.h"

/* One event of one of a completion's prompts. The pointers of `event` are valid until the next call of event_next. */
typedef struct event_record {
    pawl_event event;
    int prompt;
    double when; /* server_now() of the engine's thread */
} event_record;

/* Room for what one record points to, used again and again; zero-initialised. */
typedef struct event_reader {
    size_t at;
    pawl_event_token *tokens;
    size_t cap_tokens;
    pawl_top_logprob *top;
    size_t cap_top;
    pawl_usage usage;
    pawl_err err;
} event_reader;

void event_write(pawl_buf *b, const pawl_event *e, int prompt, double when);
/* The next record of b; 0 at its end (the reader then begins anew) or when out of memory (b is marked as failed). */
int event_next(event_reader *r, pawl_buf *b, event_record *out);
void event_reader_free(event_reader *r);

#endif
