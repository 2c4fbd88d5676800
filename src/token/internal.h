/* What the tokenizer's files share: the tables of a loaded tokenizer and the calls between its parts.
 *
 * tokenizer.c opens, closes and answers look-ups; parts.c and vocab.c read vocabulary and merges; added.c reads and
 * matches added tokens; pattern.c and pretokenize.c split text into words; bpe.c merges a word; encode.c is the
 * pipeline; detok.c goes back to text.
 * Everything that is not owned by PCRE2 lies in the tokenizer's arena and is constant once loading has ended. */
#ifndef PAWL_TOKEN_INTERNAL_H
#define PAWL_TOKEN_INTERNAL_H

#include <jansson.h>

#include "base/arena.h"
#include "base/scan.h"
#include "token/tokenizer.h"

enum {
    PAWL_TOK_MAX_ID = (1 << 24) - 1, /* ids and ranks fit 24 bits, so that a pair of ids fits one 64-bit key */
    PAWL_TOK_MAX_PIECE = 8192,       /* bytes of one vocabulary piece as it stands in the file */
    PAWL_TOK_MAX_ADDED = 512,        /* bytes of one added token: bounds the matching time per position */
    PAWL_TOK_MAX_STAGES = 16,        /* Split stages of a pre-tokenizer */
    PAWL_TOK_MAX_PATTERN = 1 << 16,  /* bytes of one regular expression */
    PAWL_TOK_MAX_TEMPLATE = 16,      /* ids that a post-processor puts before or after a text */
    PAWL_TOK_MAX_FILE = 256 << 20,   /* bytes of tokenizer.json and of tokenizer_config.json */
    PAWL_TOK_MAX_TEXT = 64 << 20     /* bytes of a text to encode: a merge needs about 32 bytes of memory a byte */
};

enum {
    PAWL_TOKEN_KNOWN = 1,   /* the id exists */
    PAWL_TOKEN_ADDED = 2,   /* an added token: matched in the text before the pre-tokenizer */
    PAWL_TOKEN_SPECIAL = 4, /* left out by skip_special */
    PAWL_TOKEN_RAW = 8      /* a piece with a character outside the byte-level alphabet: no merge can make it */
};

typedef struct pawl_token {
    const char *bytes; /* terminated; the token's text, already mapped back from the byte-level alphabet */
    uint32_t n;
    uint32_t flags;
} pawl_token;

/* One added token as the matcher sees it. */
typedef struct pawl_added {
    const char *content; /* what is searched: normalised if the token asks for it */
    uint32_t n;
    int32_t id;
    int single_word, lstrip, rstrip, normalized, special;
} pawl_added;

/* Added tokens sorted by content (as bytes); first[b] .. first[b+1] are those that begin with byte b. */
typedef struct pawl_added_set {
    pawl_added *item;
    uint32_t n;
    uint32_t first[257];
} pawl_added_set;

typedef struct pawl_pair {
    uint64_t key; /* left id << 24 | right id; all ones when the slot is empty */
    uint32_t rank;
} pawl_pair;

typedef struct pawl_pretok pawl_pretok;

struct pawl_tokenizer {
    pawl_arena *arena;
    pawl_token *token; /* [n_ids] */
    int32_t n_ids;
    uint64_t seed;  /* of both hash tables: a file cannot be written so that its keys collide */
    uint32_t *slot; /* id + 1 by hash of the bytes, 0 when empty; [slot_mask + 1] */
    uint64_t slot_mask;
    pawl_pair *pair; /* [pair_mask + 1] */
    uint64_t pair_mask;
    int32_t *merged; /* id that the merge of this rank makes; [n_merges] */
    uint32_t n_merges;
    int32_t byte_id[256]; /* id of the one-byte piece */
    int16_t byte_of[324]; /* byte that a character of the byte-level alphabet stands for, or -1 */
    int ignore_merges, nfc;
    pawl_added_set raw, normalized; /* matched before and after normalisation */
    pawl_pretok *pretok;
    int32_t before[PAWL_TOK_MAX_TEMPLATE], after[PAWL_TOK_MAX_TEMPLATE];
    unsigned n_before, n_after;
    const char *named[4]; /* bos, eos, pad, unk; NULL where there is none */
};

/* Loads from text; config may be NULL. Messages name "tokenizer.json" and "tokenizer_config.json". */
pawl_status pawl__tokenizer_load(const char *json, size_t n, const char *config, size_t n_config, pawl_tokenizer **out,
                                 pawl_err *err);

/* A printable, terminated excerpt of s for a message: at most 48 bytes, whole characters, controls as '?'. */
typedef struct pawl_excerpt {
    char text[56];
} pawl_excerpt;
pawl_excerpt pawl__excerpt(const char *s, size_t n);

/* --- parts.c --- */
/* The members that are read without a tree, each a scan of its value alone; p is NULL where there is none. */
typedef struct pawl_parts {
    pawl_scan vocab, merges;
} pawl_parts;
/* Finds model.vocab and model.merges, and appends the text with null in their place to rest. */
void pawl__tokenizer_parts(const char *text, size_t n, pawl_parts *parts, pawl_buf *rest);

/* --- vocab.c --- */
/* Reads model.vocab and model.merges; min_ids is the least n_ids (added tokens may lie past the vocabulary). */
pawl_status pawl__vocab_load(pawl_tokenizer *t, const pawl_parts *parts, int32_t min_ids, size_t n_added,
                             pawl_err *err);
/* The id of these bytes, or -1. with_raw also finds pieces that no merge can make. */
int32_t pawl__vocab_find(const pawl_tokenizer *t, const char *bytes, size_t n, int with_raw);
/* The rank of merging two ids, or UINT32_MAX. */
uint32_t pawl__pair_rank(const pawl_tokenizer *t, int32_t left, int32_t right);

/* --- added.c --- */
/* Added tokens while both files are read, in file order; item is from malloc. */
typedef struct pawl_added_list {
    pawl_added *item;
    size_t n, cap;
    int32_t max_id;
} pawl_added_list;
/* Collects tokenizer.json's added_tokens, then tokenizer_config.json's added_tokens_decoder; contents are borrowed from
 * the trees. A token may stand in both if id and content agree. */
pawl_status pawl__added_read(pawl_added_list *l, const json_t *root, const json_t *config, pawl_err *err);
/* Enters the list into the token table (checked against the vocabulary) and builds the two matching sets. */
pawl_status pawl__added_build(pawl_tokenizer *t, const pawl_added_list *l, pawl_err *err);
/* The leftmost-longest match at or after from; 0 when there is none. [*start, *end) is the span it takes, white space
 * swallowed by lstrip and rstrip included; floor is where the text not yet taken begins. */
int pawl__added_next(const pawl_added_set *set, const char *text, size_t n, size_t floor, size_t *start, size_t *end,
                     int32_t *id);

/* --- pattern.c --- */
/* Rewrites a regular expression of the Oniguruma dialect, as tokenizer.json holds it, for PCRE2; refuses what the two
 * read differently (PAWL_EUNSUPPORTED with the offset). out is the caller's. */
pawl_status pawl__pattern_rewrite(const char *p, size_t n, pawl_buf *out, pawl_err *err);

/* --- pretokenize.c --- */
/* Compiles tokenizer.json's pre_tokenizer. */
pawl_status pawl__pretok_create(const json_t *spec, pawl_pretok **out, pawl_err *err);
void pawl__pretok_destroy(pawl_pretok **p);
/* Stages, and how many of them run as machine code. */
unsigned pawl__pretok_stages(const pawl_pretok *p, unsigned *jit);
/* Splits valid UTF-8 into words, in order, none empty. word() is called for each; its failure ends the split.
 * PAWL_ETIMEDOUT when a pattern needs more steps or time than any sane one. */
typedef pawl_status (*pawl_word_fn)(void *user, const char *word, size_t n, pawl_err *err);
pawl_status pawl__pretok_split(const pawl_pretok *p, const char *text, size_t n, pawl_word_fn word, void *user,
                               pawl_err *err);

/* --- bpe.c --- */
/* Scratch of one encode call; zero-initialised, freed by pawl__bpe_free. */
typedef struct pawl_bpe {
    int32_t *id;
    uint32_t *prev, *next, *rank;
    uint64_t *heap;
    size_t cap;
} pawl_bpe;
/* Appends the ids of one word. */
pawl_status pawl__bpe_word(const pawl_tokenizer *t, pawl_bpe *s, const char *word, size_t n, pawl_ids *out,
                           pawl_err *err);
void pawl__bpe_free(pawl_bpe *s);

/* --- encode.c --- */
/* NFC of valid UTF-8. *out is NULL when the text is NFC already (or not worth asking), else from malloc. */
pawl_status pawl__nfc(const char *text, size_t n, char **out, size_t *n_out, pawl_err *err);
int pawl__is_white(uint32_t cp);

#endif
