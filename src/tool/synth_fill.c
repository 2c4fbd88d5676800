/* Values of synthetic tensors. Everything is drawn from splitmix64 streams and computed with pawl's own functions, so that
 * a seed gives the same bytes on every machine. */
#include <stdlib.h>
#include <string.h>

#include "base/mathfn.h"
#include "base/rng.h"
#include "quant/codes.h"
#include "quant/quant.h"
#include "tool/synth_internal.h"

/* The planted draft. Let D be a diagonal of signs and the rows of the embedding come in pairs with E[t^1] = D E[t], all
 * entries +-S. Without residual writes the target's last hidden state is E[t], its norm with weights 1 + w = C D turns it
 * into C D E[t] / S = C E[t^1] / S, and the head, tied to E, gives its largest logit to t^1 (row sums of equal signs are
 * largest for the row itself). The draft reads n = norm(E[t]) = E[t] / S, mtp.fc = [S I | 0] makes E[t] of it again, and
 * mtp.norm = the final norm, so its logits have the same bits: S is a power of two so large that adding epsilon to S * S
 * changes nothing, hence no step rounds. In a vocabulary of odd size the last token is its own pair: D E = E with
 * +-2 S in every fourth place, where D is 1, and zeros elsewhere, which keeps its mean square. */
#define PLANT_S 1024.0f
#define PLANT_C 0.015625f

static float plant_sign(int64_t j)
{
    return j % 2 ? -1.0f : 1.0f;
}

static void plant_embed(const pawl_synth_item *it, int64_t row, float *out)
{
    int alone = row == it->n - 1 && it->n % 2;
    uint64_t pair = pawl__mix64(it->stream ^ pawl__mix64((uint64_t)(row / 2) + 1)), bits = 0;
    for (int64_t j = 0; j < it->k; j++, bits >>= 1) {
        if (j % 64 == 0) bits = pawl__rng_next(&pair);
        float x = bits & 1 ? PLANT_S : -PLANT_S;
        if (row % 2) x *= plant_sign(j);
        if (alone) x = j % 4 ? 0 : 2 * x;
        out[j] = x;
    }
}

/* Mean 0, variance 1, nearly normal: the sum of four uniform numbers from one word. */
static float draw(uint64_t *state)
{
    uint64_t w = pawl__rng_next(state);
    int32_t sum =
        (int32_t)(w & 0xffff) + (int32_t)(w >> 16 & 0xffff) + (int32_t)(w >> 32 & 0xffff) + (int32_t)(w >> 48);
    return ((float)sum - 131070.0f) * (1.7320508f / 65536.0f);
}

static float draw_one(const pawl_synth_item *it, uint64_t *state)
{
    switch (it->fill) {
    case PAWL_FILL_NORMAL:
        return it->scale * draw(state);
    case PAWL_FILL_NORM:
        return 0.1f * draw(state);
    case PAWL_FILL_GAIN:
        return 1.0f + 0.1f * draw(state);
    case PAWL_FILL_A_LOG:
        return (float)pawl__ln(1.0 + 15.0 * pawl__rng_uniform(state));
    case PAWL_FILL_DT: {
        double dt = pawl__exp(pawl__ln(0.001) + pawl__rng_uniform(state) * pawl__ln(100.0));
        return (float)pawl__ln(pawl__exp(dt) - 1.0); /* softplus of it is dt */
    }
    default:
        return 0;
    }
}

static void draw_row(const pawl_synth_item *it, int64_t row, uint64_t *state, float *out)
{
    if (it->fill == PAWL_FILL_PLANTED_EMBED) {
        plant_embed(it, row, out);
        return;
    }
    for (int64_t j = 0; j < it->k; j++) {
        if (it->fill == PAWL_FILL_PLANTED_NORM) {
            out[j] = PLANT_C * plant_sign(j) - 1.0f;
        } else if (it->fill == PAWL_FILL_PLANTED_FC) {
            out[j] = j == row ? PLANT_S : 0;
        } else {
            out[j] = draw_one(it, state);
        }
    }
}

/* Row by row: these tensors may be larger than memory. */
static pawl_status write_plain(const pawl_synth_item *it, pawl_writer *w, pawl_err *err)
{
    uint64_t state = it->stream;
    float *row = malloc((size_t)it->k * sizeof *row);
    if (!row) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", it->part[0].name);
    pawl_status s = PAWL_OK;
    for (int64_t r = 0; s == PAWL_OK && r < it->n; r++) {
        draw_row(it, r, &state, row);
        size_t size = it->stored == PAWL_STORED_F32 ? 4 : 2;
        unsigned char *bytes = (unsigned char *)row;
        for (int64_t j = 0; size == 2 && j < it->k; j++) { /* in place: the code is not longer than the float */
            float x;
            memcpy(&x, bytes + j * 4, 4);
            uint16_t code = pawl__bf16_encode(x);
            memcpy(bytes + j * 2, &code, 2);
        }
        s = pawl__writer_put(w, bytes, (size_t)it->k * size, err);
    }
    free(row);
    return s;
}

static pawl_status put_fp8(const pawl_synth_item *it, const float *values, uint8_t *codes, float *scale, pawl_writer *w,
                           pawl_err *err)
{
    size_t blocks = (size_t)((it->n + 127) / 128 * ((it->k + 127) / 128));
    pawl__fp8blk_encode(values, it->n, it->k, PAWL_FP8_BF16_SCALE, codes, scale);
    PAWL_TRY(pawl__writer_put(w, codes, (size_t)(it->n * it->k), err));
    for (size_t i = 0; i < blocks; i++) {
        uint16_t code = pawl__bf16_encode(scale[i]);
        PAWL_TRY(pawl__writer_put(w, &code, 2, err));
    }
    return PAWL_OK;
}

static pawl_status put_nvfp4(const pawl_synth_item *it, const float *values, uint8_t *codes, uint8_t *scale,
                             pawl_writer *w, pawl_err *err)
{
    const float input_scale = 8.0f / (6 * 448); /* as if the largest activation seen had been 8 */
    float scale2 = pawl__nvfp4_encode(values, it->n, it->k, 0, codes, scale);
    PAWL_TRY(pawl__writer_put(w, codes, (size_t)(it->n * it->k / 2), err));
    PAWL_TRY(pawl__writer_put(w, scale, (size_t)(it->n * it->k / 16), err));
    PAWL_TRY(pawl__writer_put(w, &scale2, 4, err));
    return pawl__writer_put(w, &input_scale, 4, err);
}

static pawl_status write_quantised(const pawl_synth_item *it, pawl_writer *w, pawl_err *err)
{
    size_t count = (size_t)(it->n * it->k);
    uint64_t state = it->stream;
    float *values = malloc(count * sizeof *values), *scale = malloc((count / 16 + 1) * sizeof *scale);
    uint8_t *codes = malloc(count);
    pawl_status s = PAWL_OK;
    if (!values || !scale || !codes) {
        s = pawl__fail(err, PAWL_ENOMEM, "%s: out of memory for %zu values", it->part[0].name, count);
    } else {
        for (int64_t r = 0; r < it->n; r++) draw_row(it, r, &state, values + r * it->k);
        s = it->stored == PAWL_STORED_FP8 ? put_fp8(it, values, codes, scale, w, err)
                                          : put_nvfp4(it, values, codes, (uint8_t *)scale, w, err);
    }
    free(values);
    free(scale);
    free(codes);
    return s;
}

pawl_status pawl__synth_write(const pawl_synth_item *it, pawl_writer *w, pawl_err *err)
{
    int plain = it->stored == PAWL_STORED_BF16 || it->stored == PAWL_STORED_F32;
    return plain ? write_plain(it, w, err) : write_quantised(it, w, err);
}
