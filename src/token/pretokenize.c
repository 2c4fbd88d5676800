/* Splitting text into the words that BPE works on: the Split stages of tokenizer.json's pre_tokenizer, on PCRE2.
 *
 * Patterns come from strangers. Each match is bounded in steps and memory, and a whole split in processor time, since a
 * pattern can be slow at every position without any single match being so. The text was validated by the caller, once:
 * PCRE2 would check the rest of it again at every match. A compiled pattern is shared between threads; match data and
 * stacks belong to one call. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "token/internal.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/log.h"

/* What ByteLevel with use_regex stands for (GPT-2). */
static const char gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

struct pawl_pretok {
    pcre2_code *stage[PAWL_TOK_MAX_STAGES];
    unsigned n_stages, n_jit;
    int byte_level; /* the closing ByteLevel stage was seen */
};

void pawl__pretok_destroy(pawl_pretok **pp)
{
    pawl_pretok *p = *pp;
    if (!p) return;
    for (unsigned i = 0; i < p->n_stages; i++) pcre2_code_free(p->stage[i]);
    free(p);
    *pp = NULL;
}

unsigned pawl__pretok_stages(const pawl_pretok *p, unsigned *jit)
{
    *jit = p->n_jit;
    return p->n_stages;
}

/* literal: the pattern is plain text. */
static pawl_status add_stage(pawl_pretok *p, const char *pattern, size_t n, int literal, pawl_err *err)
{
    if (p->n_stages == PAWL_TOK_MAX_STAGES)
        return pawl__fail(err, PAWL_EUNSUPPORTED, "more than %d stages", PAWL_TOK_MAX_STAGES);
    if (n == 0 || n > PAWL_TOK_MAX_PATTERN)
        return pawl__fail(err, PAWL_EFORMAT, "a pattern of %zu bytes, expected 1 to %d", n, PAWL_TOK_MAX_PATTERN);
    pawl_buf rewritten = {0};
    if (!literal) {
        pawl_status s = pawl__pattern_rewrite(pattern, n, &rewritten, err);
        if (s != PAWL_OK) {
            pawl__buf_free(&rewritten);
            return s;
        }
        pattern = rewritten.data;
        n = rewritten.len;
    }
    const uint32_t literal_options = PCRE2_UTF | PCRE2_LITERAL;
    const uint32_t regex_options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
    pcre2_compile_context *cc = pcre2_compile_context_create(NULL);
    int code = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code *re = NULL;
    if (cc) {
        pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
        re = pcre2_compile((PCRE2_SPTR)pattern, n, literal ? literal_options : regex_options, &code, &offset, cc);
    }
    pcre2_compile_context_free(cc);
    pawl__buf_free(&rewritten);
    if (!re) {
        if (!cc || code == PCRE2_ERROR_HEAP_FAILED) return pawl__fail(err, PAWL_ENOMEM, "out of memory");
        PCRE2_UCHAR why[128];
        pcre2_get_error_message(code, why, sizeof why);
        return pawl__fail(err, PAWL_EFORMAT, "the pattern does not compile: %s at byte %zu", (const char *)why,
                          (size_t)offset);
    }
    /* Where memory may not be made executable this fails, and pcre2_match interprets. */
    if (pcre2_jit_compile(re, PCRE2_JIT_COMPLETE) == 0) p->n_jit++;
    p->stage[p->n_stages++] = re;
    return PAWL_OK;
}

static pawl_status add_split(pawl_pretok *p, const json_t *spec, pawl_err *err)
{
    const char *behavior = "Isolated", *regex = NULL, *literal = NULL;
    PAWL_TRY(pawl__json_get_str(spec, "behavior", &behavior, err));
    /* invert only swaps what counts as match and as gap; isolated, both become words. */
    if (strcmp(behavior, "Isolated") != 0)
        return pawl__fail(err, PAWL_EUNSUPPORTED, "Split behavior \"%s\" is not supported, only \"Isolated\"",
                          pawl__excerpt(behavior, strlen(behavior)).text);
    const json_t *pattern = json_object_get(spec, "pattern");
    PAWL_TRY(pawl__json_get_str(pattern, "Regex", &regex, err));
    PAWL_TRY(pawl__json_get_str(pattern, "String", &literal, err));
    if (!regex == !literal) return pawl__fail(err, PAWL_EFORMAT, "Split pattern: expected a Regex or a String");
    const json_t *text = json_object_get(pattern, regex ? "Regex" : "String");
    return add_stage(p, json_string_value(text), json_string_length(text), !regex, err);
}

static pawl_status add_byte_level(pawl_pretok *p, const json_t *spec, pawl_err *err)
{
    int prefix = 0, use_regex = 1;
    PAWL_TRY(pawl__json_get_bool(spec, "add_prefix_space", &prefix, err));
    PAWL_TRY(pawl__json_get_bool(spec, "use_regex", &use_regex, err));
    if (prefix) return pawl__fail(err, PAWL_EUNSUPPORTED, "ByteLevel with add_prefix_space is not supported");
    p->byte_level = 1;
    return use_regex ? add_stage(p, gpt2_pattern, sizeof gpt2_pattern - 1, 0, err) : PAWL_OK;
}

static pawl_status add_any(pawl_pretok *p, const json_t *spec, unsigned depth, pawl_err *err)
{
    const char *type = NULL;
    if (!json_is_object(spec))
        return pawl__fail(err, PAWL_EFORMAT, "expected an object, found %s", pawl__json_kind(spec));
    PAWL_TRY(pawl__json_get_str(spec, "type", &type, err));
    if (!type) return pawl__fail(err, PAWL_EFORMAT, "type is missing");
    if (p->byte_level) return pawl__fail(err, PAWL_EUNSUPPORTED, "a stage after ByteLevel is not supported");
    if (strcmp(type, "Split") == 0) return add_split(p, spec, err);
    if (strcmp(type, "ByteLevel") == 0) return add_byte_level(p, spec, err);
    if (strcmp(type, "Digits") == 0) {
        int individual = 0;
        PAWL_TRY(pawl__json_get_bool(spec, "individual_digits", &individual, err));
        return individual ? add_stage(p, "\\p{N}", 5, 0, err) : add_stage(p, "\\p{N}+", 6, 0, err);
    }
    if (strcmp(type, "Sequence") != 0 || depth == 0)
        return pawl__fail(err, PAWL_EUNSUPPORTED, "type \"%s\" is not supported here",
                          pawl__excerpt(type, strlen(type)).text);
    const json_t *list = json_object_get(spec, "pretokenizers");
    if (!json_is_array(list)) return pawl__fail(err, PAWL_EFORMAT, "pretokenizers: expected an array");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (add_any(p, json_array_get(list, i), depth - 1, err) != PAWL_OK)
            return pawl__fail_in(err, "pretokenizers[%zu]", i);
    return PAWL_OK;
}

pawl_status pawl__pretok_create(const json_t *spec, pawl_pretok **out, pawl_err *err)
{
    pawl_err own; /* add_any needs a record to put its path into */
    if (!err) err = &own;
    pawl_pretok *p = calloc(1, sizeof *p);
    *out = p;
    if (!p) return pawl__fail(err, PAWL_ENOMEM, "pre_tokenizer: out of memory");
    pawl_status s = add_any(p, spec, 2, err);
    if (s == PAWL_OK && !p->byte_level)
        s = pawl__fail(err, PAWL_EUNSUPPORTED, "no ByteLevel stage; only byte-level BPE is supported");
    if (s != PAWL_OK) {
        pawl__pretok_destroy(out);
        return pawl__fail_in(err, "pre_tokenizer");
    }
    pawl__log(PAWL_LOG_DEBUG, "token", "pre-tokenizer compiled stages=%u jit=%u", p->n_stages, p->n_jit);
    return PAWL_OK;
}

typedef struct split {
    const pawl_pretok *p;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack; /* made when a match asks for more than the 32 KiB of machine stack */
    pawl_word_fn word;
    void *user;
    uint64_t n_matches, deadline_ns;
    pawl_err *err;
} split;

static uint64_t cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static pawl_status match_failed(split *s, unsigned stage, int code)
{
    PCRE2_UCHAR why[128];
    pcre2_get_error_message(code, why, sizeof why);
    pawl_status status = code == PCRE2_ERROR_NOMEMORY ? PAWL_ENOMEM : PAWL_ETIMEDOUT;
    return pawl__fail(s->err, status, "pre-tokenizer stage %u: %s", stage, (const char *)why);
}

/* pcre2_match, again with a larger stack if the machine code ran out of it. */
static int match(split *s, const pcre2_code *re, const char *text, size_t n, size_t from)
{
    int rc = pcre2_match(re, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK, s->data, s->context);
    if (rc != PCRE2_ERROR_JIT_STACKLIMIT || s->stack) return rc;
    s->stack = pcre2_jit_stack_create(32 << 10, 1 << 20, NULL);
    if (!s->stack) return PCRE2_ERROR_NOMEMORY;
    pcre2_jit_stack_assign(s->context, NULL, s->stack);
    return pcre2_match(re, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK, s->data, s->context);
}

static pawl_status run_stage(split *s, unsigned k, const char *text, size_t n)
{
    if (n == 0) return PAWL_OK;
    if (k == s->p->n_stages) return s->word(s->user, text, n, s->err);
    const pcre2_code *re = s->p->stage[k];
    size_t taken = 0, from = 0;
    while (from < n) {
        if (++s->n_matches % 256 == 0 && cpu_ns() > s->deadline_ns)
            return pawl__fail(s->err, PAWL_ETIMEDOUT, "pre-tokenizer stage %u: the pattern is too slow for this text",
                              k);
        int rc = match(s, re, text, n, from);
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc < 0) return match_failed(s, k, rc);
        const PCRE2_SIZE *v = pcre2_get_ovector_pointer(s->data);
        size_t start = v[0], end = v[1];
        PAWL_TRY(run_stage(s, k + 1, text + taken, start - taken));
        PAWL_TRY(run_stage(s, k + 1, text + start, end - start));
        taken = from = end;
        if (start == end) /* an empty match only parts what lies around it */
            do from++;
            while (from < n && ((unsigned char)text[from] & 0xc0) == 0x80);
    }
    return run_stage(s, k + 1, text + taken, n - taken);
}

pawl_status pawl__pretok_split(const pawl_pretok *p, const char *text, size_t n, pawl_word_fn word, void *user,
                               pawl_err *err)
{
    split s = {.p = p, .word = word, .user = user, .err = err};
    s.data = pcre2_match_data_create(1, NULL);
    s.context = pcre2_match_context_create(NULL);
    pawl_status status;
    if (s.data && s.context) {
        /* A run of n characters that a pattern walks back over costs n steps by right: hence the second term. The
         * clock's bound is some fifty times what the interpreter needs for the known patterns. */
        pcre2_set_match_limit(s.context, 1000000u + 16u * (uint32_t)n);
        pcre2_set_heap_limit(s.context, 64u << 10);
        s.deadline_ns = cpu_ns() + 1000000000u + 5000u * (uint64_t)n;
        status = run_stage(&s, 0, text, n);
    } else {
        status = pawl__fail(err, PAWL_ENOMEM, "out of memory");
    }
    if (s.stack) pcre2_jit_stack_free(s.stack);
    pcre2_match_context_free(s.context);
    pcre2_match_data_free(s.data);
    return status;
}
