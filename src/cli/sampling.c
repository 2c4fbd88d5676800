/* Options of the verbs that generate: sampling, length, drafting, where to stop. What is not given is the checkpoint's
 * generation_config.json, which only the open model knows; so what was given is marked and laid over it later. */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum {
    KEY_TEMP = 0x300,
    KEY_TOP_K,
    KEY_TOP_P,
    KEY_MIN_P,
    KEY_PRESENCE,
    KEY_FREQUENCY,
    KEY_REPETITION,
    KEY_BIAS,
    KEY_SEED,
    KEY_DRAFT,
    KEY_IGNORE_EOS,
    KEY_STOP
};

static const struct argp_option sampling_options[] = {
    {0, 0, 0, 0, "What to generate (defaults: the checkpoint's generation_config.json):", 20},
    {"tokens", 'n', "N", 0, "At most N tokens; 0: up to the context (default 256 for run, 0 for chat)", 20},
    {"temp", KEY_TEMP, "T", 0, "Temperature; 0 always takes the likeliest token", 20},
    {"top-k", KEY_TOP_K, "K", 0, "Choose among the K likeliest; 0: all", 20},
    {"top-p", KEY_TOP_P, "P", 0, "Choose among the fewest tokens that hold P of the probability; 1: all", 20},
    {"min-p", KEY_MIN_P, "P", 0, "Drop tokens under P times the likeliest one's probability; 0: none", 20},
    {"presence-penalty", KEY_PRESENCE, "X", 0, "Lower the logit of every token generated before by X, once", 20},
    {"frequency-penalty", KEY_FREQUENCY, "X", 0, "Lower the logit of every token generated before by X for each time",
     20},
    {"repetition-penalty", KEY_REPETITION, "R", 0, "Divide logits of tokens seen before, prompt included, by R; 1: off",
     20},
    {"logit-bias", KEY_BIAS, "ID=B", 0, "Add B to a token's logit (-inf forbids it). May be repeated", 20},
    {"seed", KEY_SEED, "S", 0, "Same seed, same text. Default: drawn by the system and reported", 20},
    {"stop", KEY_STOP, "TEXT", 0, "End before this text. May be repeated", 20},
    {"ignore-eos", KEY_IGNORE_EOS, 0, 0, "Go on after an end token", 20},
    {"draft", KEY_DRAFT, "N|auto", 0,
     "Draft N tokens (0 to 8) with the model's own MTP layer and verify them together. Changes the speed, never the "
     "text "
     "(default auto)",
     20},
    {0},
};

static void add_bias(struct argp_state *st, cli_sampling_args *a, const char *arg)
{
    const char *eq = strchr(arg, '=');
    char id[16];
    if (!eq || eq == arg || (size_t)(eq - arg) >= sizeof id)
        argp_error(st, "--logit-bias: \"%s\" is not ID=B, as in --logit-bias 42=-5", arg);
    memcpy(id, arg, (size_t)(eq - arg));
    id[eq - arg] = 0;
    pawl_logit_bias *v = realloc(a->bias, (a->v.n_bias + 1) * sizeof *v);
    if (!v) argp_failure(st, CLI_FAILED, 0, "out of memory");
    a->bias = v;
    v[a->v.n_bias].id = (int32_t)cli_int(st, "--logit-bias", id, 0, INT32_MAX);
    double b = strcmp(eq + 1, "-inf") ? cli_num(st, "--logit-bias", eq + 1, -1e6, 1e6) : -INFINITY;
    v[a->v.n_bias++].bias = (float)b;
}

static error_t parse_sampling(int key, char *arg, struct argp_state *st)
{
    cli_sampling_args *a = st->input;
    pawl_sampling *v = &a->v;
    switch (key) {
    case 'n':
        a->max_tokens = cli_int(st, "-n", arg, 0, INT32_MAX);
        break;
    case KEY_TEMP:
        v->temperature = (float)cli_num(st, "--temp", arg, 0, 1e4);
        break;
    case KEY_TOP_K:
        v->top_k = (int32_t)cli_int(st, "--top-k", arg, 0, INT32_MAX);
        break;
    case KEY_TOP_P:
        v->top_p = (float)cli_num(st, "--top-p", arg, 0, 1);
        break;
    case KEY_MIN_P:
        v->min_p = (float)cli_num(st, "--min-p", arg, 0, 1);
        break;
    case KEY_PRESENCE:
        v->presence_penalty = (float)cli_num(st, "--presence-penalty", arg, -100, 100);
        break;
    case KEY_FREQUENCY:
        v->frequency_penalty = (float)cli_num(st, "--frequency-penalty", arg, -100, 100);
        break;
    case KEY_REPETITION:
        v->repetition_penalty = (float)cli_num(st, "--repetition-penalty", arg, 0.01, 100);
        break;
    case KEY_BIAS:
        add_bias(st, a, arg);
        break;
    case KEY_SEED:
        v->seed = cli_seed(st, "--seed", arg);
        break;
    case KEY_STOP:
        if (!*arg) argp_error(st, "--stop: the text is empty");
        cli_list_add(st, &a->stop, arg);
        break;
    case KEY_IGNORE_EOS:
        a->ignore_eos = 1;
        break;
    case KEY_DRAFT:
        a->draft =
            strcmp(arg, "auto") ? (int)cli_int(st, "--draft (or \"auto\")", arg, 0, PAWL_MAX_DRAFT) : PAWL_DRAFT_AUTO;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    if (key >= KEY_TEMP) a->given |= 1u << (key - KEY_TEMP);
    return 0;
}

const struct argp cli_sampling_argp = {.options = sampling_options, .parser = parse_sampling};

void cli_sampling_init(cli_sampling_args *a, int64_t max_tokens)
{
    *a = (cli_sampling_args){.max_tokens = max_tokens, .draft = PAWL_DRAFT_AUTO};
}

void cli_sampling_free(cli_sampling_args *a)
{
    free(a->bias);
    free(a->stop.v);
    a->bias = NULL;
    a->stop = (cli_list){0};
}

static int given(const cli_sampling_args *a, int key)
{
    return a->given >> (key - KEY_TEMP) & 1;
}

void cli_generate_options(const cli_sampling_args *a, const pawl_model *m, pawl_sampling *s, pawl_generate_options *out)
{
    *s = PAWL_INIT(pawl_sampling);
    pawl_model_get_sampling(m, s);
    if (given(a, KEY_TEMP)) s->temperature = a->v.temperature;
    if (given(a, KEY_TOP_K)) s->top_k = a->v.top_k;
    if (given(a, KEY_TOP_P)) s->top_p = a->v.top_p;
    if (given(a, KEY_MIN_P)) s->min_p = a->v.min_p;
    if (given(a, KEY_PRESENCE)) s->presence_penalty = a->v.presence_penalty;
    if (given(a, KEY_FREQUENCY)) s->frequency_penalty = a->v.frequency_penalty;
    if (given(a, KEY_REPETITION)) s->repetition_penalty = a->v.repetition_penalty;
    if (given(a, KEY_BIAS)) s->bias = a->bias, s->n_bias = a->v.n_bias;
    if (given(a, KEY_SEED)) s->seed = a->v.seed, s->has_seed = 1;
    *out = PAWL_INIT(pawl_generate_options);
    out->max_tokens = a->max_tokens;
    out->sampling = s;
    out->draft = a->draft;
    pawl_model_info info = PAWL_INIT(pawl_model_info);
    pawl_model_get_info(m, &info);
    if (!info.draft_layers) {
        if (a->draft > 0) cli_error("this model has no draft layer: going on without --draft %d", a->draft);
        out->draft = 0;
    }
    out->ignore_eos = a->ignore_eos;
    out->stop = a->stop.v;
    out->n_stop = a->stop.n;
}

pawl_status cli_kwargs(const char *kwargs, int think, char **out, pawl_err *err)
{
    *out = NULL;
    json_t *j = NULL;
    if (kwargs) {
        PAWL_TRY(pawl__json_parse(kwargs, strlen(kwargs), "--kwargs", &j, err));
        if (!json_is_object(j)) {
            pawl__fail(err, PAWL_EFORMAT, "--kwargs: found %s, expected an object", pawl__json_kind(j));
            json_decref(j);
            return err->status;
        }
    }
    if (think >= 0) {
        if (!j) j = json_object();
        json_object_set_new(j, "enable_thinking", json_boolean(think));
    }
    if (!j) return PAWL_OK;
    *out = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    return *out ? PAWL_OK : pawl__fail(err, PAWL_ENOMEM, "out of memory");
}
