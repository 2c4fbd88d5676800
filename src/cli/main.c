/* The pawl program: finds the verb and hands it the command line. Exit codes: 0 done, 1 failure, 2 wrong usage, 130
 * interrupted. */
#include "cli/cli.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cli_verb verbs[] = {
    {"run", "continue a text, or answer one message", cli_run},
    {"chat", "talk with a model", cli_chat},
    {"serve", "serve a model over HTTP, as OpenAI's API has it", cli_serve},
    {"bench", "put load on a server and measure it (pawl bench serve URL)", cli_bench},
    {"score", "logits, log-probabilities and perplexity of given tokens", cli_score},
    {"explain", "which kernel serves which op, and why", cli_explain},
    {"inspect", "what a checkpoint holds", cli_inspect},
    {"tokenize", "text to token ids", cli_tokenize},
    {"detokenize", "token ids to text", cli_detokenize},
    {"render", "apply a checkpoint's chat template to messages", cli_render},
    {"synth", "write a random checkpoint for a config", cli_synth},
};
enum { N_VERBS = sizeof verbs / sizeof *verbs };

static const cli_verb *find(const char *name)
{
    for (int i = 0; i < N_VERBS; i++)
        if (!strcmp(verbs[i].name, name)) return &verbs[i];
    return NULL;
}

static void print_help(FILE *f)
{
    fputs("Usage: pawl VERB [OPTION...]\n"
          "Runs mixture-of-experts language models that draft their own tokens.\n\n",
          f);
    for (int i = 0; i < N_VERBS; i++) fprintf(f, "  %-12s %s\n", verbs[i].name, verbs[i].summary);
    fputs("\n"
          "  pawl help VERB    what a verb does, its options and examples\n"
          "  pawl --version\n\n"
          "MODEL is the folder of a checkpoint: config.json and safetensors files in the Hugging Face layout.\n\n"
          "To begin with:\n"
          "  pawl run models/tale-moe-fp8 -p 'Once upon a time' --stats\n"
          "  pawl explain models/tale-moe-fp8\n",
          f);
}

/* Letters to insert, delete or change to get from a to b; short words only. */
static int distance(const char *a, const char *b)
{
    enum { MAX = 15 };
    int row[MAX + 1], n = (int)strlen(b);
    if (n > MAX || strlen(a) > MAX) return MAX;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int cost = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < cost) cost = row[j] + 1;
            if (row[j - 1] + 1 < cost) cost = row[j - 1] + 1;
            row[j] = cost;
        }
    }
    return row[n];
}

static int unknown_verb(const char *name)
{
    const cli_verb *near = NULL;
    int best = 3;
    for (int i = 0; i < N_VERBS; i++) {
        int d = distance(name, verbs[i].name);
        if (d < best) best = d, near = &verbs[i];
    }
    fprintf(stderr, "pawl: no verb \"%s\"", name);
    if (near) fprintf(stderr, "; did you mean \"%s\"?", near->name);
    fputs(" `pawl --help` lists them.\n", stderr);
    return CLI_USAGE;
}

static int call(const cli_verb *v, int argc, char **argv)
{
    char name[32];
    snprintf(name, sizeof name, "pawl %s", v->name);
    argv[0] = name; /* what argp and getopt put before their messages */
    return v->main(argc, argv);
}

int main(int argc, char **argv)
{
    /* LC_CTYPE for line editing; numbers keep the C locale's point. */
    if (!setlocale(LC_CTYPE, "") || !strcmp(setlocale(LC_CTYPE, NULL), "C")) setlocale(LC_CTYPE, "C.UTF-8");
    argp_err_exit_status = CLI_USAGE;
    cli_signals_init();
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    const char *first = argv[1];
    if (!strcmp(first, "--version") || !strcmp(first, "-V")) {
        printf("pawl %s\n", pawl_version());
        return cli_finish(CLI_DONE);
    }
    const int help = !strcmp(first, "help");
    if (!strcmp(first, "--help") || !strcmp(first, "-h") || !strcmp(first, "-?") || (help && argc == 2)) {
        print_help(stdout);
        return cli_finish(CLI_DONE);
    }
    const char *name = help ? argv[2] : first;
    if (name[0] == '-') {
        fprintf(stderr, "pawl: no option \"%s\" here; a verb comes first: pawl VERB [OPTION...]; see `pawl --help`\n",
                name);
        return CLI_USAGE;
    }
    const cli_verb *v = find(name);
    if (!v) return unknown_verb(name);
    if (help) return call(v, 2, (char *[]){NULL, "--help", NULL});
    return call(v, argc - 1, argv + 1);
}
