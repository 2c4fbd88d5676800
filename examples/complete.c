/* complete MODEL PROMPT [TOKENS]: continues a text with libpawl; the smallest program that is of use.
 *
 * Build it against the installed library:
 *
 *     cc -o complete complete.c $(pkg-config --cflags --libs pawl)
 *
 * or without shared libraries:
 *
 *     cc -static -o complete complete.c $(pkg-config --static --cflags --libs pawl)
 *
 * (PKG_CONFIG_PATH=PREFIX/lib/pkgconfig and, when it runs, LD_LIBRARY_PATH=PREFIX/lib help where pawl was installed
 * outside the system's folders.) Then:
 *
 *     ./complete models/tale-moe-fp8 "Once upon a time" 60
 *
 * The continuation goes to standard output as it is made, the figures to standard error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pawl/pawl.h>

/* Called for every token. The text comes in whole characters, so it may be printed at once; it can be empty while a
 * character is not yet complete. Returning nonzero would end the run. */
static int print_token(const pawl_token *token, void *user)
{
    FILE *out = user;
    if (token->n_text) fwrite(token->text, 1, token->n_text, out);
    return fflush(out) != 0;
}

static void print_stats(const pawl_stats *s)
{
    fprintf(stderr, "\n%lld prompt tokens in %.3f s, %lld new ones in %.3f s\n", (long long)s->prompt_tokens,
            s->prefill_seconds, (long long)s->generated_tokens, s->decode_seconds);
    if (s->drafted)
        fprintf(stderr, "%lld of %lld drafts accepted in %lld rounds\n", (long long)s->accepted, (long long)s->drafted,
                (long long)s->rounds);
}

/* Text to token ids to a longer sequence. Each call that fails has put its reason into err. */
static pawl_status complete(const pawl_model *model, pawl_session *session, const char *prompt, long tokens,
                            pawl_err *err)
{
    int32_t *ids;
    size_t n;
    pawl_status status = pawl_tokenize(model, prompt, strlen(prompt), 0, &ids, &n, err);
    if (status != PAWL_OK) return status;
    status = pawl_session_feed(session, ids, n, err); /* copies the ids */
    pawl_free(ids);
    if (status != PAWL_OK) return status;

    /* Greedy here. Without options.sampling the checkpoint's own defaults are used; pawl_model_get_sampling() tells them,
     * and sampling.seed with has_seed makes a sampled text repeatable. */
    pawl_sampling sampling = PAWL_INIT(pawl_sampling);
    pawl_model_get_sampling(model, &sampling);
    sampling.temperature = 0;

    pawl_generate_options options = PAWL_INIT(pawl_generate_options);
    options.sampling = &sampling;
    options.max_tokens = tokens;
    options.draft = PAWL_DRAFT_AUTO; /* changes the speed, never the text */

    pawl_result result = PAWL_INIT(pawl_result);
    status = pawl_generate(session, &options, print_token, stdout, &result, err);
    if (status == PAWL_OK) print_stats(&result.stats);
    return status;
}

int main(int argc, char **argv)
{
    long tokens = argc == 4 ? strtol(argv[3], NULL, 10) : 100;
    if (argc < 3 || argc > 4 || tokens < 1) {
        fprintf(stderr, "usage: complete MODEL PROMPT [TOKENS]\n");
        return 2;
    }
    if (pawl_abi_version() != PAWL_ABI_VERSION) {
        fprintf(stderr, "complete: built for another version of libpawl (%s)\n", pawl_version());
        return 1;
    }
    pawl_err err;
    pawl_model *model = NULL;     /* may be shared by many sessions and threads */
    pawl_session *session = NULL; /* one sequence of tokens and its caches */
    pawl_status status = pawl_model_open(argv[1], NULL, &model, &err);
    if (status == PAWL_OK) status = pawl_session_create(model, NULL, &session, &err);
    if (status == PAWL_OK) status = complete(model, session, argv[2], tokens, &err);
    if (status != PAWL_OK) fprintf(stderr, "complete: %s: %s\n", pawl_status_name(status), err.text);
    /* Both accept NULL and null the pointer; sessions go before their model. */
    pawl_session_destroy(&session);
    pawl_model_close(&model);
    return status == PAWL_OK ? 0 : 1;
}
