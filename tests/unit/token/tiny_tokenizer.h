/* A small tokenizer.json for tests, as a tree that a test changes before it is printed: all 256 byte pieces (ids 0 to
 * 255 by byte), a few merges, the Qwen2 pattern. */
#ifndef PAWL_TESTS_TINY_TOKENIZER_H
#define PAWL_TESTS_TINY_TOKENIZER_H

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define QWEN2_PATTERN                                                                                                  \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"  \
    "\\s+(?!\\S)|\\s+"

typedef struct tiny {
    json_t *root, *model, *vocab, *merges, *added; /* all but root are borrowed from root */
} tiny;

static inline void tiny_piece(tiny *t, const char *piece)
{
    json_object_set_new(t->vocab, piece, json_integer((json_int_t)json_object_size(t->vocab)));
}

static inline json_t *tiny_split(const char *pattern)
{
    return json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", pattern, "behavior", "Isolated",
                     "invert", 0);
}

static inline json_t *tiny_byte_level(void)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 0, "use_regex",
                     0);
}

static inline void tiny_pattern(tiny *t, const char *pattern)
{
    json_object_set_new(
        t->root, "pre_tokenizer",
        json_pack("{s:s, s:[o, o]}", "type", "Sequence", "pretokenizers", tiny_split(pattern), tiny_byte_level()));
}

static inline json_t *tiny_added(int id, const char *content)
{
    return json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", content, "single_word", 0, "lstrip", 0,
                     "rstrip", 0, "normalized", 0, "special", 1);
}

static inline tiny tiny_create(void)
{
    tiny t;
    t.vocab = json_object();
    for (int b = 0, next = 256; b < 256; b++) {
        char piece[5] = {0};
        int printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        piece[pawl__utf8_encode((uint32_t)(printable ? b : next++), piece)] = 0;
        tiny_piece(&t, piece);
    }
    tiny_piece(&t, "ab");  /* 256 */
    tiny_piece(&t, "abc"); /* 257 */
    tiny_piece(&t, "bc");  /* 258 */
    t.merges = json_pack("[s, [s, s], [s, s]]", "b c", "a", "b", "a", "bc");
    t.added = json_pack("[o]", tiny_added(300, "<s>"));
    t.model = json_pack("{s:s, s:o, s:o}", "type", "BPE", "vocab", t.vocab, "merges", t.merges);
    t.root = json_pack("{s:o, s:o, s:{s:s}, s:{s:s}}", "model", t.model, "added_tokens", t.added, "normalizer", "type",
                       "NFC", "decoder", "type", "ByteLevel");
    tiny_pattern(&t, QWEN2_PATTERN);
    return t;
}

/* Owned by the caller. */
static inline char *tiny_text(const tiny *t)
{
    return json_dumps(t->root, JSON_COMPACT);
}

static inline void tiny_free(tiny *t)
{
    json_decref(t->root);
}

#endif
