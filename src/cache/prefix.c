#include "cache/prefix.h"

#include <stdlib.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* a hash state on the stack */
#include <xxhash.h>

enum { N_BUCKETS = 1 << 12 };

typedef struct node {
    XXH128_hash_t key;
    struct node *parent, *sibling; /* sibling: the parent's next partial node */
    struct node *partials;         /* nodes of less than an interval after this one */
    struct node *chain;            /* next in the bucket: block nodes and roots */
    char *tenant;                  /* of a root */
    int32_t *ids;                  /* [n] */
    /* [n_pages] from page first_page on: those of this node's tokens, and that of the token before them, whose draft keys
     * depend on this node's first token */
    int32_t *pages;
    int64_t n, n_pages, first_page, len; /* len: tokens from the root to this node's end */
    int64_t n_children;
    float *data; /* state, hidden, logits; NULL: no checkpoint */
    int has_logits;
    uint64_t used;            /* when the checkpoint was stored or found last */
    struct node *prev, *next; /* all nodes */
} node;

struct pawl_prefix {
    pawl_kv *kv;
    pawl_slots *slots;
    pawl_prefix_options opt;
    size_t state_floats;
    uint64_t clock;
    node *buckets[N_BUCKETS];
    node *nodes;
    pawl_prefix_stats stats;
};

pawl_status pawl__prefix_create(pawl_kv *kv, pawl_slots *slots, const pawl_prefix_options *opt, pawl_prefix **out,
                                pawl_err *err)
{
    *out = NULL;
    if (opt->interval < 1 || opt->interval % opt->page)
        return pawl__fail(err, PAWL_EINVAL, "prefix interval: found %lld, expected a multiple of %lld",
                          (long long)opt->interval, (long long)opt->page);
    pawl_prefix *p = calloc(1, sizeof *p);
    if (!p) return pawl__fail(err, PAWL_ENOMEM, "prefix cache: out of memory");
    p->kv = kv;
    p->slots = slots;
    p->opt = *opt;
    p->state_floats = pawl__slots_floats(slots);
    *out = p;
    return PAWL_OK;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static size_t data_floats(const pawl_prefix *p, int with_logits)
{
    return p->state_floats + (size_t)p->opt.hidden + (with_logits ? (size_t)p->opt.vocab : 0);
}

static node **bucket(pawl_prefix *p, XXH128_hash_t key)
{
    return &p->buckets[key.low64 % N_BUCKETS];
}

static int is_block(const pawl_prefix *p, const node *n)
{
    return !n->parent || n->n == p->opt.interval;
}

static XXH128_hash_t root_key(const char *tenant)
{
    return XXH3_128bits(tenant, strlen(tenant));
}

static XXH128_hash_t block_key(const pawl_prefix *p, const node *parent, const int32_t *ids)
{
    XXH3_state_t s;
    XXH3_128bits_reset(&s);
    XXH3_128bits_update(&s, &parent->key, sizeof parent->key);
    XXH3_128bits_update(&s, ids, (size_t)p->opt.interval * sizeof *ids);
    return XXH3_128bits_digest(&s);
}

static node *find_root(pawl_prefix *p, const char *tenant)
{
    XXH128_hash_t key = root_key(tenant);
    for (node *n = *bucket(p, key); n; n = n->chain)
        if (!n->parent && XXH128_isEqual(n->key, key) && !strcmp(n->tenant, tenant)) return n;
    return NULL;
}

static int same_ids(const node *n, const int32_t *ids)
{
    return !memcmp(n->ids, ids, (size_t)n->n * sizeof *ids);
}

static node *find_block(pawl_prefix *p, const node *parent, const int32_t *ids)
{
    XXH128_hash_t key = block_key(p, parent, ids);
    for (node *n = *bucket(p, key); n; n = n->chain)
        if (n->parent == parent && XXH128_isEqual(n->key, key) && same_ids(n, ids)) return n;
    return NULL;
}

static void free_node(node *n)
{
    free(n->tenant);
    free(n->ids);
    free(n->pages);
    free(n->data);
    free(n);
}

static void link_node(pawl_prefix *p, node *n)
{
    if (is_block(p, n)) {
        node **b = bucket(p, n->key);
        n->chain = *b;
        *b = n;
    } else {
        n->sibling = n->parent->partials;
        n->parent->partials = n;
    }
    if (n->parent) n->parent->n_children++;
    n->next = p->nodes;
    if (p->nodes) p->nodes->prev = n;
    p->nodes = n;
    pawl__kv_hold(p->kv, n->pages, n->n_pages);
    p->stats.holds += n->n_pages;
    p->stats.bytes += n->n_pages * (int64_t)pawl__kv_page_bytes(p->kv);
    p->stats.nodes++;
}

/* n_ids tokens after parent; pages are those of the whole sequence. A root when parent is NULL. NULL: out of memory. */
static node *add_node(pawl_prefix *p, node *parent, const char *tenant, const int32_t *ids, int64_t n_ids,
                      const int32_t *pages)
{
    node *n = calloc(1, sizeof *n);
    if (!n) return NULL;
    n->parent = parent;
    n->n = n_ids;
    n->len = (parent ? parent->len : 0) + n_ids;
    n->first_page = parent && parent->len > 0 ? (parent->len - 1) / p->opt.page : 0;
    n->n_pages = (n->len + p->opt.page - 1) / p->opt.page - n->first_page;
    n->tenant = parent ? NULL : strdup(tenant);
    n->ids = malloc((size_t)n_ids * sizeof *n->ids + 1);
    n->pages = malloc((size_t)n->n_pages * sizeof *n->pages + 1);
    if ((!parent && !n->tenant) || !n->ids || !n->pages) {
        free_node(n);
        return NULL;
    }
    if (n_ids) {
        memcpy(n->ids, ids, (size_t)n_ids * sizeof *ids);
        memcpy(n->pages, pages + n->first_page, (size_t)n->n_pages * sizeof *pages);
    }
    if (!parent)
        n->key = root_key(tenant);
    else if (n_ids == p->opt.interval)
        n->key = block_key(p, parent, ids);
    link_node(p, n);
    return n;
}

static void drop_data(pawl_prefix *p, node *n)
{
    if (!n->data) return;
    p->stats.bytes -= (int64_t)(data_floats(p, n->has_logits) * sizeof(float));
    free(n->data);
    n->data = NULL;
    n->has_logits = 0;
}

static void remove_node(pawl_prefix *p, node *n)
{
    node **at = is_block(p, n) ? bucket(p, n->key) : &n->parent->partials;
    while (*at != n) at = is_block(p, n) ? &(*at)->chain : &(*at)->sibling;
    *at = is_block(p, n) ? n->chain : n->sibling;
    if (n->parent) n->parent->n_children--;
    if (n->prev) n->prev->next = n->next;
    if (n->next) n->next->prev = n->prev;
    if (p->nodes == n) p->nodes = n->next;
    drop_data(p, n);
    pawl__kv_give(p->kv, n->pages, n->n_pages);
    p->stats.holds -= n->n_pages;
    p->stats.bytes -= n->n_pages * (int64_t)pawl__kv_page_bytes(p->kv);
    p->stats.nodes--;
    free_node(n);
}

/* Removes the node and then its ancestors as far as nothing can be found through them. */
static void prune(pawl_prefix *p, node *n)
{
    while (n && !n->data && n->n_children == 0) {
        node *parent = n->parent;
        remove_node(p, n);
        n = parent;
    }
}

/* Drops the checkpoint that has not been used for longest, but not `keep`; 0 when there is none. */
static int evict_one(pawl_prefix *p, const node *keep)
{
    node *oldest = NULL;
    for (node *n = p->nodes; n; n = n->next)
        if (n->data && n != keep && (!oldest || n->used < oldest->used)) oldest = n;
    if (!oldest) return 0;
    drop_data(p, oldest);
    prune(p, oldest);
    p->stats.evictions++;
    return 1;
}

void pawl__prefix_destroy(pawl_prefix **pp)
{
    pawl_prefix *p = *pp;
    if (!p) return;
    while (evict_one(p, NULL)) {}
    free(p);
    *pp = NULL;
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static void fill_hit(const pawl_prefix *p, node *n, int32_t *pages, pawl_prefix_hit *hit)
{
    hit->len = n->len;
    hit->state = n->data;
    hit->hidden = n->data + p->state_floats;
    hit->logits = n->has_logits ? hit->hidden + p->opt.hidden : NULL;
    /* Upwards: a page that a node shares with the one before it is the later one's. */
    for (int64_t end = n->first_page + n->n_pages; n->parent; n = n->parent)
        while (end > n->first_page) {
            end--;
            pages[end] = n->pages[end - n->first_page];
        }
}

void pawl__prefix_find(pawl_prefix *p, const char *tenant, const int32_t *ids, int64_t n, int32_t *pages,
                       pawl_prefix_hit *hit)
{
    node *best = NULL;
    memset(hit, 0, sizeof *hit);
    for (node *at = find_root(p, tenant ? tenant : ""); at;) {
        if (at->data && (at->len < n || at->has_logits)) best = at;
        int64_t left = n - at->len;
        for (node *c = at->partials; c; c = c->sibling)
            if (c->data && (c->n < left || (c->n == left && c->has_logits)) && (!best || c->len > best->len) &&
                same_ids(c, ids + at->len))
                best = c;
        at = left >= p->opt.interval ? find_block(p, at, ids + at->len) : NULL;
    }
    if (!best) return;
    best->used = ++p->clock;
    fill_hit(p, best, pages, hit);
}

/* ---- storing ----------------------------------------------------------------------------------------------------- */

static node *find_partial(const node *parent, const int32_t *ids, int64_t n)
{
    for (node *c = parent->partials; c; c = c->sibling)
        if (c->n == n && same_ids(c, ids)) return c;
    return NULL;
}

/* The node that ends at len, made with all that lead to it; NULL: out of memory, with what was made pruned. */
static node *make_path(pawl_prefix *p, const char *tenant, const int32_t *ids, int64_t len, const int32_t *pages)
{
    node *at = find_root(p, tenant);
    if (!at) at = add_node(p, NULL, tenant, NULL, 0, NULL);
    while (at && at->len < len) {
        int64_t left = len - at->len, n = left < p->opt.interval ? left : p->opt.interval;
        node *child = n == p->opt.interval ? find_block(p, at, ids + at->len) : find_partial(at, ids + at->len, n);
        if (!child) child = add_node(p, at, NULL, ids + at->len, n, pages);
        if (!child) prune(p, at);
        at = child;
    }
    return at;
}

void pawl__prefix_insert(pawl_prefix *p, const char *tenant, const int32_t *ids, int64_t len, const int32_t *pages,
                         int32_t slot, const float *hidden, const float *logits)
{
    size_t bytes = data_floats(p, logits != NULL) * sizeof(float);
    int64_t all_pages = (len + p->opt.page - 1) / p->opt.page;
    if (len < 1 || (int64_t)bytes + all_pages * (int64_t)pawl__kv_page_bytes(p->kv) > p->opt.budget) return;
    node *n = make_path(p, tenant ? tenant : "", ids, len, pages);
    if (!n) return;
    n->used = ++p->clock;
    if (n->data && (n->has_logits || !logits)) return;
    drop_data(p, n);
    n->data = malloc(bytes);
    if (!n->data) {
        prune(p, n);
        return;
    }
    n->has_logits = logits != NULL;
    p->stats.bytes += (int64_t)bytes;
    pawl__slots_save(p->slots, slot, n->data);
    memcpy(n->data + p->state_floats, hidden, (size_t)p->opt.hidden * sizeof *hidden);
    if (logits) memcpy(n->data + p->state_floats + p->opt.hidden, logits, (size_t)p->opt.vocab * sizeof *logits);
    while (p->stats.bytes > p->opt.budget && evict_one(p, n)) {}
}

int pawl__prefix_make_room(pawl_prefix *p, int64_t n)
{
    while (pawl__kv_free(p->kv) < n)
        if (!evict_one(p, NULL)) return 0;
    return 1;
}

void pawl__prefix_get_stats(const pawl_prefix *p, pawl_prefix_stats *out)
{
    *out = p->stats;
}
