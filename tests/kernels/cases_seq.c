/* Cases of the ops that work along sequences: kv_store, attn, conv. */
#include "cases.h"

#include <math.h>
#include <string.h>

void chk_cut_segments(chk_case *c, int64_t first, int64_t n)
{
    for (int s = 0; s < c->n_segs; s++) {
        pawl_seg whole = c->whole_segs[s];
        int64_t from = first > whole.row0 ? first : whole.row0;
        int64_t to = first + n < whole.row0 + whole.rows ? first + n : whole.row0 + whole.rows;
        int32_t skip = (int32_t)(from - whole.row0);
        c->segs[s] = whole;
        c->segs[s].row0 = (int32_t)(from - first);
        c->segs[s].rows = to > from ? (int32_t)(to - from) : 0;
        c->segs[s].pos0 += skip;
        c->segs[s].log0 += skip;
        if (c->segs[s].rows == 0) c->segs[s].row0 = 0;
    }
}

/* Segments one after another with these row counts; each gets its own slot, positions and pages. */
static int64_t lay_segments(chk_case *c, const int32_t *rows, int n, uint64_t *rng)
{
    int32_t row = 0, page = 0, log = 0;
    c->n_segs = n;
    for (int s = 0; s < n; s++) {
        pawl_seg *seg = &c->whole_segs[s];
        *seg = (pawl_seg){.row0 = row, .rows = rows[s], .slot = n - 1 - s, .page0 = page, .log0 = log};
        seg->pos0 = (int32_t)chk_pick(rng, 0, 300);
        page += (seg->pos0 + seg->rows + PAWL_KV_PAGE - 1) / PAWL_KV_PAGE;
        row += rows[s];
        log += rows[s];
    }
    memcpy(c->segs, c->whole_segs, sizeof c->segs);
    return row;
}

static int64_t pages_of(const chk_case *c)
{
    const pawl_seg *last = &c->whole_segs[c->n_segs - 1];
    return last->page0 + (last->pos0 + last->rows + PAWL_KV_PAGE - 1) / PAWL_KV_PAGE;
}

/* A page table in which no page follows its neighbour. */
static const int32_t *make_pages(chk_case *c, int64_t n, uint64_t *rng)
{
    int32_t *pages = chk_buffer(c, "pages", CHK_IN, (size_t)n * 4, 0);
    for (int64_t i = 0; i < n; i++) pages[i] = (int32_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = chk_pick(rng, 0, i);
        int32_t keep = pages[i];
        pages[i] = pages[j];
        pages[j] = keep;
    }
    return pages;
}

static int64_t page_of(const int32_t *pages, const pawl_seg *seg, int64_t pos, int64_t kv_heads, int64_t h, int64_t d)
{
    return (pages[seg->page0 + pos / PAWL_KV_PAGE] * kv_heads + h) * PAWL_KV_PAGE * d;
}

/* Element i of the key of a position, and of its value. */
static int64_t key_at(const int32_t *pages, const pawl_seg *seg, int64_t pos, int64_t kv_heads, int64_t h, int64_t d,
                      int64_t i)
{
    return page_of(pages, seg, pos, kv_heads, h, d) + i * PAWL_KV_PAGE + pos % PAWL_KV_PAGE;
}

static int64_t value_at(const int32_t *pages, const pawl_seg *seg, int64_t pos, int64_t kv_heads, int64_t h, int64_t d,
                        int64_t i)
{
    return page_of(pages, seg, pos, kv_heads, h, d) + pos % PAWL_KV_PAGE * d + i;
}

static void select_kv_store(chk_case *c, int64_t first, int64_t n)
{
    pawl_kv_store_args *a = &c->args.kv_store;
    *a = c->whole.kv_store;
    chk_cut_segments(c, first, n);
    a->m = n;
    a->k += first * a->k_row;
    a->v += first * a->v_row;
}

bool chk_make_kv_store(chk_case *c, int index, uint64_t *rng)
{
    static const int32_t rows[][4] = {{1, 0, 0, 0}, {3, 20, 2, 1}, {0, 33, 1, 4}};
    static const int64_t heads[][2] = {{1, 16}, {2, 37}, {3, 64}};
    if (index >= 3) return false;
    pawl_kv_store_args *a = &c->args.kv_store;
    int64_t m = lay_segments(c, rows[index], index ? 4 : 1, rng), n = pages_of(c), h = heads[index][0],
            d = heads[index][1];
    if (index) c->whole_segs[2].slot = -1; /* padding: nothing may be stored */
    *a = (pawl_kv_store_args){
        .m = m, .kv_heads = h, .d = d, .k_row = h * d + 3, .v_row = h * d, .segs = c->segs, .n_segs = c->n_segs};
    a->k = chk_floats(c, "k", CHK_IN, (m - 1) * a->k_row + h * d, CHK_RANDOM, rng);
    a->v = chk_floats(c, "v", CHK_IN, m * a->v_row, CHK_RANDOM, rng);
    a->pages = make_pages(c, n, rng);
    a->cache_k = chk_floats(c, "cache_k", CHK_OUT, n * h * PAWL_KV_PAGE * d, CHK_RANDOM, rng);
    a->cache_v = chk_floats(c, "cache_v", CHK_OUT, n * h * PAWL_KV_PAGE * d, CHK_RANDOM, rng);
    chk_expect(c, a->cache_k, 0, 0, CHK_UNTOUCHED);
    chk_expect(c, a->cache_v, 0, 0, CHK_UNTOUCHED);
    for (int s = 0; s < c->n_segs; s++) {
        const pawl_seg *seg = &c->whole_segs[s];
        for (int64_t i = 0; i < seg->rows * h * d && seg->slot >= 0; i++) {
            int64_t t = i / (h * d), pos = seg->pos0 + t;
            chk_expect(c, a->cache_k, key_at(a->pages, seg, pos, h, i / d % h, d, i % d),
                       a->k[(seg->row0 + t) * a->k_row + i % (h * d)], CHK_EXACT);
            chk_expect(c, a->cache_v, value_at(a->pages, seg, pos, h, i / d % h, d, i % d),
                       a->v[(seg->row0 + t) * a->v_row + i % (h * d)], CHK_EXACT);
        }
    }
    c->whole = c->args;
    c->items = m;
    c->select = select_kv_store;
    c->q = pawl__query(PAWL_OP_KV_STORE);
    c->q.n = h;
    c->q.k = d;
    snprintf(c->name, sizeof c->name, "m=%d heads=%d d=%d", (int)m, (int)h, (int)d);
    return true;
}

static void select_attn(chk_case *c, int64_t first, int64_t n)
{
    pawl_attn_args *a = &c->args.attn;
    *a = c->whole.attn;
    chk_cut_segments(c, first, n);
    a->m = n;
    a->q += first * a->q_row;
    if (a->gate) a->gate += first * a->gate_row;
    a->out += first * a->heads * a->d;
}

static void expect_attn(chk_case *c, const pawl_seg *seg, int64_t t, int64_t h)
{
    const pawl_attn_args *a = &c->whole.attn;
    int64_t d = a->d, kv = h / (a->heads / a->kv_heads), positions = seg->pos0 + (t - seg->row0) + 1;
    const float *q = a->q + t * a->q_row + h * a->q_head;
    double score[1024], max = -INFINITY, sum = 0, worst = 0;
    for (int64_t j = 0; j < positions; j++) {
        const float *k = a->cache_k + key_at(a->pages, seg, j, a->kv_heads, kv, d, 0);
        double dot = 0, size = 0;
        for (int64_t i = 0; i < d; i++) {
            dot += (double)q[i] * k[i * PAWL_KV_PAGE];
            size += fabs((double)q[i] * k[i * PAWL_KV_PAGE]);
        }
        score[j] = dot * a->scale;
        max = fmax(max, score[j]);
        worst = fmax(worst, chk_linear_bound(d, size) * a->scale);
    }
    for (int64_t j = 0; j < positions; j++) sum += score[j] = exp(score[j] - max);
    for (int64_t i = 0; i < d; i++) {
        double o = 0, size = 0;
        for (int64_t j = 0; j < positions && seg->slot >= 0; j++) {
            double v = a->cache_v[value_at(a->pages, seg, j, a->kv_heads, kv, d, i)] * score[j] / sum;
            o += v;
            size += fabs(v);
        }
        if (a->gate) o *= chk_sigmoid(a->gate[t * a->gate_row + h * a->gate_head + i]);
        chk_expect(c, a->out, (t * a->heads + h) * d + i, o, seg->slot < 0 ? CHK_EXACT : (4 * worst + 3e-5) * size);
    }
}

bool chk_make_attn(chk_case *c, int index, uint64_t *rng)
{
    static const int32_t rows[][4] = {{1, 0, 0, 0}, {3, 9, 2, 1}, {0, 5, 1, 4}, {2, 270, 0, 1}, {1, 17, 1, 2}};
    static const int64_t heads[][3] = {{1, 1, 16}, {4, 2, 37}, {6, 1, 64}, {2, 2, 24}, {16, 2, 48}};
    enum { SHAPES = sizeof rows / sizeof rows[0] };
    if (index >= 2 * SHAPES) return false;
    pawl_attn_args *a = &c->args.attn;
    int shape = index % SHAPES;
    int64_t m = lay_segments(c, rows[shape], shape ? 4 : 1, rng), n = pages_of(c);
    int64_t h = heads[shape][0], kv = heads[shape][1], d = heads[shape][2];
    if (shape) c->whole_segs[2].slot = -1;
    *a = (pawl_attn_args){
        .m = m, .heads = h, .kv_heads = kv, .d = d, .scale = 1 / sqrtf((float)d), .segs = c->segs, .n_segs = c->n_segs};
    /* query and gate interleaved per head, as q_proj makes them */
    a->q_head = a->gate_head = 2 * d;
    a->q_row = a->gate_row = h * 2 * d;
    float *qg = chk_floats(c, "q", CHK_IN, m * a->q_row, CHK_RANDOM, rng);
    a->q = qg;
    if (index >= SHAPES) a->gate = qg + d;
    a->pages = make_pages(c, n, rng);
    size_t size = (size_t)(n * kv * PAWL_KV_PAGE * d);
    float *k = chk_floats(c, "cache_k", CHK_IN, (int64_t)size, CHK_RANDOM, rng);
    float *v = chk_floats(c, "cache_v", CHK_IN, (int64_t)size, CHK_RANDOM, rng);
    a->cache_k = k;
    a->cache_v = v;
    for (int s = 0; s < c->n_segs; s++) { /* positions that no row sees hold NaN */
        const pawl_seg *seg = &c->whole_segs[s];
        int64_t end = seg->pos0 + seg->rows;
        for (int64_t p = end; p % PAWL_KV_PAGE; p++)
            for (int64_t i = 0; i < kv * d; i++) k[key_at(a->pages, seg, p, kv, i / d, d, i % d)] = NAN;
        for (int64_t p = end; p % PAWL_KV_PAGE; p++)
            for (int64_t i = 0; i < kv * d; i++) v[value_at(a->pages, seg, p, kv, i / d, d, i % d)] = NAN;
    }
    a->out = chk_floats(c, "out", CHK_OUT, m * h * d, CHK_RANDOM, rng);
    c->whole = c->args;
    for (int s = 0; s < c->n_segs; s++)
        for (int64_t i = 0; i < c->whole_segs[s].rows * h; i++)
            expect_attn(c, &c->whole_segs[s], c->whole_segs[s].row0 + i / h, i % h);
    c->items = m;
    c->select = select_attn;
    c->q = pawl__query(PAWL_OP_ATTN);
    c->q.n = h;
    c->q.k = d;
    c->q.x[0] = kv;
    c->q.flags = a->gate ? PAWL_QF_GATED : 0;
    snprintf(c->name, sizeof c->name, "m=%d heads=%d/%d d=%d%s", (int)m, (int)h, (int)kv, (int)d,
             a->gate ? " gated" : "");
    return true;
}

static void select_conv(chk_case *c, int64_t first, int64_t n)
{
    pawl_conv_args *a = &c->args.conv;
    *a = c->whole.conv;
    chk_cut_segments(c, first, n);
    a->m = n;
    a->u += first * a->u_row;
    a->out += first * a->channels;
}

static void expect_conv(chk_case *c, const pawl_seg *seg, int64_t ch)
{
    const pawl_conv_args *a = &c->whole.conv;
    double past[3], w[4];
    float *state = seg->slot < 0 ? NULL : a->state + seg->slot * a->slot_size + ch * 3;
    for (int i = 0; i < 4; i++) w[i] = a->w[ch * 4 + i];
    for (int i = 0; i < 3; i++) past[i] = state ? state[i] : 0;
    for (int64_t t = seg->row0; t < seg->row0 + seg->rows; t++) {
        double u = a->u[t * a->u_row + ch], y = w[0] * past[0] + w[1] * past[1] + w[2] * past[2] + w[3] * u;
        double size = fabs(w[0] * past[0]) + fabs(w[1] * past[1]) + fabs(w[2] * past[2]) + fabs(w[3] * u);
        chk_expect(c, a->out, t * a->channels + ch, state ? chk_silu(y) : 0,
                   state ? size * 0x1p-20 + 1e-35 : CHK_EXACT);
        past[0] = past[1];
        past[1] = past[2];
        past[2] = u;
        if (state && seg->verify) chk_expect(c, a->log, (seg->log0 + t - seg->row0) * a->channels + ch, u, CHK_EXACT);
    }
    for (int i = 0; i < 3 && state && !seg->verify; i++)
        chk_expect(c, a->state, state + i - a->state, past[i], CHK_EXACT);
}

bool chk_make_conv(chk_case *c, int index, uint64_t *rng)
{
    static const int32_t rows[][5] = {{1, 0, 0, 0, 0}, {5, 1, 2, 3, 2}, {0, 30, 1, 4, 1}, {2, 2, 1, 1, 9}};
    static const int64_t channels[] = {1, 70, 64, 130};
    if (index >= 4) return false;
    pawl_conv_args *a = &c->args.conv;
    int64_t m = lay_segments(c, rows[index], index ? 5 : 1, rng), n = channels[index];
    if (index) {
        c->whole_segs[2].slot = -1;
        c->whole_segs[3].verify = index != 2;
    }
    *a = (pawl_conv_args){
        .m = m, .channels = n, .u_row = n + 2, .segs = c->segs, .n_segs = c->n_segs, .slot_size = n * 3 + 4};
    a->u = chk_floats(c, "u", CHK_IN, (m - 1) * a->u_row + n, CHK_RANDOM, rng);
    a->w = chk_floats(c, "w", CHK_IN, n * 4, CHK_RANDOM, rng);
    a->state = chk_floats(c, "state", CHK_INOUT, (c->n_segs - 1) * a->slot_size + n * 3, CHK_RANDOM, rng);
    a->log = chk_floats(c, "log", CHK_OUT, m * n, CHK_RANDOM, rng);
    a->out = chk_floats(c, "out", CHK_OUT, m * n, CHK_RANDOM, rng);
    chk_expect(c, a->log, 0, 0, CHK_UNTOUCHED);
    chk_expect(c, a->state, 0, 0, CHK_UNTOUCHED);
    c->whole = c->args;
    int piece = 0;
    bool verify = false;
    for (int s = 0; s < c->n_segs; s++) {
        const pawl_seg *seg = &c->whole_segs[s];
        for (int64_t ch = 0; ch < n; ch++) expect_conv(c, seg, ch);
        verify |= seg->verify;
        for (int i = 0; i < seg->rows; i += seg->verify ? seg->rows : 1)
            c->pieces[piece++] = seg->verify ? seg->rows : 1;
    }
    c->items = m;
    c->select = select_conv;
    c->q = pawl__query(PAWL_OP_CONV);
    c->q.n = n;
    c->q.k = PAWL_CONV_WINDOW;
    c->q.flags = verify ? PAWL_QF_VERIFY : 0;
    snprintf(c->name, sizeof c->name, "m=%d channels=%d%s", (int)m, (int)n, verify ? " verify" : "");
    return true;
}

static void select_conv_replay(chk_case *c, int64_t first, int64_t n)
{
    c->args.conv_replay = c->whole.conv_replay;
    chk_cut_segments(c, first, n);
}

bool chk_make_conv_replay(chk_case *c, int index, uint64_t *rng)
{
    static const int32_t rows[][5] = {{1, 0, 0, 0, 0}, {5, 1, 2, 0, 2}, {0, 3, 1, 9, 4}};
    static const int64_t channels[] = {1, 70, 64};
    if (index >= 3) return false;
    pawl_conv_replay_args *a = &c->args.conv_replay;
    int64_t m = lay_segments(c, rows[index], index ? 5 : 1, rng), n = channels[index];
    if (index) c->whole_segs[2].slot = -1;
    *a = (pawl_conv_replay_args){.channels = n, .segs = c->segs, .n_segs = c->n_segs, .slot_size = n * 3 + 4};
    a->state = chk_floats(c, "state", CHK_INOUT, (c->n_segs - 1) * a->slot_size + n * 3, CHK_RANDOM, rng);
    a->log = chk_floats(c, "log", CHK_IN, m * n, CHK_RANDOM, rng);
    chk_expect(c, a->state, 0, 0, CHK_UNTOUCHED);
    for (int s = 0; s < c->n_segs; s++) {
        const pawl_seg *seg = &c->whole_segs[s];
        for (int64_t i = 0; i < n * 3 && seg->slot >= 0 && seg->rows > 0; i++) {
            int64_t ch = i / 3, back = i % 3 + seg->rows - 3, at = seg->slot * a->slot_size + i;
            float kept = back < 0 ? a->state[at + seg->rows] : a->log[(seg->log0 + back) * n + ch];
            chk_expect(c, a->state, at, kept, CHK_EXACT);
        }
    }
    c->whole = c->args;
    c->items = m;
    c->select = select_conv_replay;
    c->q = pawl__query(PAWL_OP_CONV_REPLAY);
    c->q.n = n;
    c->q.k = PAWL_CONV_WINDOW;
    snprintf(c->name, sizeof c->name, "rows=%d channels=%d", (int)m, (int)n);
    return true;
}
