/* libs: pawl_server */
/* Request bodies from strangers. The first byte says for which path; a request that is taken has all its figures in range,
 * and one that is refused says why. */
#include <stdlib.h>
#include <string.h>

#include "server/openai.h"

static void need(int ok)
{
    if (!ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    static const pawl_sampling defaults = {.size = sizeof defaults, .top_p = 1, .repetition_penalty = 1};
    enum { VOCAB = 4096 };
    openai_request r;
    char param[64];
    pawl_err err = {0};
    int chat = data[0] == 'c';
    if (openai_parse((const char *)data + 1, size - 1, chat, &defaults, VOCAB, &r, param, &err) != PAWL_OK) {
        need(err.text[0] && memchr(param, 0, sizeof param) && !r.root);
        return 0;
    }
    const pawl_request_options *o = &r.options;
    need(o->n >= 1 && o->n <= PAWL_MAX_CHOICES && o->max_tokens >= -1 && o->min_tokens >= 0);
    need(r.sampling.temperature >= 0 && r.sampling.top_p >= 0 && r.sampling.top_p <= 1 && r.sampling.top_k >= 0);
    for (size_t i = 0; i < o->n_stop; i++) need(*o->stop[i] != 0);
    for (size_t i = 0; i < r.sampling.n_bias; i++) need(r.sampling.bias[i].id >= 0 && r.sampling.bias[i].id < VOCAB);
    for (size_t i = 0; i < r.n_prompts; i++) need(r.prompts[i].text || r.prompts[i].n_ids > 0);
    need(!chat || json_array_size(r.messages) > 0);
    openai_request_free(&r);
    return 0;
}
