/* Added tokens: reading them from both files, and finding them in a text.
 *
 * Matching is leftmost, longest at equal start. The tokens are sorted, so the candidates at a position are a range that
 * each further byte narrows by binary search; no byte of the text is looked at by more than one range at a time. */
#include "token/internal.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/json.h"
#include "base/utf8.h"

static pawl_status read_fields(const json_t *o, pawl_added *a, pawl_err *err)
{
    const char *content = NULL;
    if (!json_is_object(o)) return pawl__fail(err, PAWL_EFORMAT, "expected an object, found %s", pawl__json_kind(o));
    PAWL_TRY(pawl__json_get_str(o, "content", &content, err));
    if (!content) return pawl__fail(err, PAWL_EFORMAT, "content is missing");
    size_t n = json_string_length(json_object_get(o, "content"));
    if (n == 0 || n > PAWL_TOK_MAX_ADDED)
        return pawl__fail(err, PAWL_EFORMAT, "content: expected 1 to %d bytes, found %zu", PAWL_TOK_MAX_ADDED, n);
    a->content = content;
    a->n = (uint32_t)n;
    PAWL_TRY(pawl__json_get_bool(o, "single_word", &a->single_word, err));
    PAWL_TRY(pawl__json_get_bool(o, "lstrip", &a->lstrip, err));
    PAWL_TRY(pawl__json_get_bool(o, "rstrip", &a->rstrip, err));
    PAWL_TRY(pawl__json_get_bool(o, "normalized", &a->normalized, err));
    return pawl__json_get_bool(o, "special", &a->special, err);
}

static pawl_status append(pawl_added_list *l, const pawl_added *a, pawl_err *err)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        pawl_added *more = realloc(l->item, cap * sizeof *more);
        if (!more) return pawl__fail(err, PAWL_ENOMEM, "out of memory");
        l->item = more;
        l->cap = cap;
    }
    l->item[l->n++] = *a;
    if (a->id > l->max_id) l->max_id = a->id;
    return PAWL_OK;
}

static pawl_status read_array(pawl_added_list *l, const json_t *root, pawl_err *err)
{
    const json_t *list = json_object_get(root, "added_tokens");
    if (!list || json_is_null(list)) return PAWL_OK;
    if (!json_is_array(list))
        return pawl__fail(err, PAWL_EFORMAT, "tokenizer.json: added_tokens: expected an array, found %s",
                          pawl__json_kind(list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        pawl_added a = {0};
        int64_t id = -1;
        const json_t *o = json_array_get(list, i);
        pawl_status s = read_fields(o, &a, err);
        if (s == PAWL_OK) s = pawl__json_get_int(o, "id", 0, PAWL_TOK_MAX_ID, &id, err);
        if (s == PAWL_OK && id < 0) s = pawl__fail(err, PAWL_EFORMAT, "id is missing");
        a.id = (int32_t)id;
        if (s == PAWL_OK) s = append(l, &a, err);
        if (s != PAWL_OK) return pawl__fail_in(err, "tokenizer.json: added_tokens[%zu]", i);
    }
    return PAWL_OK;
}

/* "123" as an id, or -1. */
static int32_t parse_id(const char *s)
{
    int32_t id = 0;
    if (!*s) return -1;
    for (; *s; s++) {
        if (*s < '0' || *s > '9') return -1;
        id = id * 10 + (*s - '0');
        if (id > PAWL_TOK_MAX_ID) return -1;
    }
    return id;
}

static pawl_status read_map(pawl_added_list *l, const json_t *config, pawl_err *err)
{
    json_t *map = json_object_get(config, "added_tokens_decoder");
    if (!map || json_is_null(map)) return PAWL_OK;
    if (!json_is_object(map))
        return pawl__fail(err, PAWL_EFORMAT,
                          "tokenizer_config.json: added_tokens_decoder: expected an object, found %s",
                          pawl__json_kind(map));
    for (void *it = json_object_iter(map); it; it = json_object_iter_next(map, it)) {
        const char *key = json_object_iter_key(it);
        pawl_added a = {.id = parse_id(key)};
        pawl_status s = read_fields(json_object_iter_value(it), &a, err);
        if (s == PAWL_OK && a.id < 0)
            s = pawl__fail(err, PAWL_EFORMAT, "expected an id from 0 to %d as the key", PAWL_TOK_MAX_ID);
        if (s == PAWL_OK) s = append(l, &a, err);
        if (s != PAWL_OK)
            return pawl__fail_in(err, "tokenizer_config.json: added_tokens_decoder[\"%s\"]",
                                 pawl__excerpt(key, strlen(key)).text);
    }
    return PAWL_OK;
}

pawl_status pawl__added_read(pawl_added_list *l, const json_t *root, const json_t *config, pawl_err *err)
{
    l->max_id = -1;
    PAWL_TRY(read_array(l, root, err));
    return read_map(l, config, err);
}

static int by_content(const void *pa, const void *pb)
{
    const pawl_added *a = pa, *b = pb;
    int c = memcmp(a->content, b->content, a->n < b->n ? a->n : b->n);
    if (c) return c;
    return a->n < b->n ? -1 : a->n > b->n;
}

/* Enters one token into the table. *twice is set when it is there already with the same content. */
static pawl_status enter(pawl_tokenizer *t, const pawl_added *a, int *twice, pawl_err *err)
{
    pawl_token *k = &t->token[a->id];
    *twice = (k->flags & PAWL_TOKEN_ADDED) != 0;
    if (k->flags && (k->n != a->n || memcmp(k->bytes, a->content, a->n) != 0))
        return pawl__fail(err, PAWL_EFORMAT, "added token \"%s\" has id %d, but that is \"%s\" elsewhere",
                          pawl__excerpt(a->content, a->n).text, a->id, pawl__excerpt(k->bytes, k->n).text);
    if (*twice) return PAWL_OK;
    if (!k->flags) {
        k->bytes = pawl__arena_strndup(t->arena, a->content, a->n);
        if (!k->bytes) return pawl__fail(err, PAWL_ENOMEM, "added tokens: out of memory");
        k->n = a->n;
        k->flags = PAWL_TOKEN_KNOWN;
    }
    k->flags |= PAWL_TOKEN_ADDED | (a->special ? PAWL_TOKEN_SPECIAL : 0u);
    return PAWL_OK;
}

/* Puts a token into its set; what is searched in normalised text is normalised itself. */
static pawl_status place(pawl_tokenizer *t, const pawl_added *a, pawl_err *err)
{
    pawl_added_set *set = a->normalized ? &t->normalized : &t->raw;
    pawl_added *to = &set->item[set->n++];
    *to = *a;
    to->content = t->token[a->id].bytes;
    if (!a->normalized || !t->nfc) return PAWL_OK;
    char *nfc;
    size_t n;
    PAWL_TRY(pawl__nfc(a->content, a->n, &nfc, &n, err));
    if (!nfc) return PAWL_OK;
    to->content = pawl__arena_strndup(t->arena, nfc, n);
    to->n = (uint32_t)n;
    free(nfc);
    return to->content ? PAWL_OK : pawl__fail(err, PAWL_ENOMEM, "added tokens: out of memory");
}

static pawl_status index_set(pawl_added_set *set, pawl_err *err)
{
    if (set->n > 1) qsort(set->item, set->n, sizeof *set->item, by_content);
    for (uint32_t i = 1; i < set->n; i++) {
        const pawl_added *a = &set->item[i - 1], *b = &set->item[i];
        if (by_content(a, b) == 0)
            return pawl__fail(err, PAWL_EFORMAT, "added token \"%s\" has two ids, %d and %d",
                              pawl__excerpt(a->content, a->n).text, a->id < b->id ? a->id : b->id,
                              a->id < b->id ? b->id : a->id);
    }
    uint32_t i = 0;
    for (int b = 0; b <= 256; b++) {
        while (i < set->n && (unsigned char)set->item[i].content[0] < b) i++;
        set->first[b] = i;
    }
    return PAWL_OK;
}

pawl_status pawl__added_build(pawl_tokenizer *t, const pawl_added_list *l, pawl_err *err)
{
    t->raw.item = pawl__arena_array(t->arena, l->n, sizeof *t->raw.item);
    t->normalized.item = pawl__arena_array(t->arena, l->n, sizeof *t->normalized.item);
    if (!t->raw.item || !t->normalized.item) return pawl__fail(err, PAWL_ENOMEM, "added tokens: out of memory");
    for (size_t i = 0; i < l->n; i++) {
        int twice;
        PAWL_TRY(enter(t, &l->item[i], &twice, err));
        if (!twice) PAWL_TRY(place(t, &l->item[i], err));
    }
    PAWL_TRY(index_set(&t->raw, err));
    return index_set(&t->normalized, err);
}

/* The longest token that the text begins with, or NULL. */
static const pawl_added *longest_at(const pawl_added_set *set, const char *text, size_t n)
{
    unsigned char c = (unsigned char)text[0];
    uint32_t lo = set->first[c], hi = set->first[c + 1];
    const pawl_added *best = NULL;
    /* Invariant: exactly item[lo..hi) share the first d bytes with the text; the shortest of them sorts first. */
    for (uint32_t d = 1; lo < hi; d++) {
        if (set->item[lo].n == d) best = &set->item[lo++];
        if (d == n || lo == hi) break;
        c = (unsigned char)text[d];
        uint32_t a = lo, b = hi;
        while (a < b) {
            uint32_t mid = a + (b - a) / 2;
            if ((unsigned char)set->item[mid].content[d] < c)
                a = mid + 1;
            else
                b = mid;
        }
        lo = a;
        b = hi;
        while (a < b) {
            uint32_t mid = a + (b - a) / 2;
            if ((unsigned char)set->item[mid].content[d] <= c)
                a = mid + 1;
            else
                b = mid;
        }
        hi = a;
    }
    return best;
}

/* \w of the reference's regular expressions: letters, marks, decimal and letter numbers, connectors, joiners. */
static int is_word(uint32_t cp)
{
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return 1;
    default:
        return cp == 0x200c || cp == 0x200d || (cp >= 0x24b6 && cp <= 0x24e9);
    }
}

/* The character that ends at text + end; its first byte goes to *start. */
static uint32_t char_before(const char *text, size_t end, size_t *start)
{
    uint32_t cp = 0;
    size_t i = end - 1;
    while (i > 0 && ((unsigned char)text[i] & 0xc0) == 0x80) i--;
    pawl__utf8_decode(text + i, end - i, &cp, NULL);
    *start = i;
    return cp;
}

static int stands_alone(const char *text, size_t n, size_t start, size_t end)
{
    uint32_t cp;
    size_t i;
    if (start > 0 && is_word(char_before(text, start, &i))) return 0;
    return end == n || pawl__utf8_decode(text + end, n - end, &cp, NULL) < 0 || !is_word(cp);
}

int pawl__added_next(const pawl_added_set *set, const char *text, size_t n, size_t floor, size_t *start, size_t *end,
                     int32_t *id)
{
    if (set->n == 0) return 0;
    for (size_t i = floor; i < n;) {
        const pawl_added *a = longest_at(set, text + i, n - i);
        if (!a) {
            i++;
            continue;
        }
        size_t from = i, to = i + a->n;
        i = to; /* a match that single_word refuses is passed over whole, as in the reference */
        if (a->single_word && !stands_alone(text, n, from, to)) continue;
        if (a->lstrip)
            for (size_t p; from > floor && pawl__is_white(char_before(text, from, &p)); from = p) {}
        if (a->rstrip) {
            uint32_t cp;
            int len;
            while (to < n && (len = pawl__utf8_decode(text + to, n - to, &cp, NULL)) > 0 && pawl__is_white(cp))
                to += (size_t)len;
        }
        *start = from;
        *end = to;
        *id = a->id;
        return 1;
    }
    return 0;
}
