#include "base/utf8.h"

int pawl__utf8_decode(const char *s, size_t n, uint32_t *cp, size_t *skip)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t ignored;
    if (!skip) skip = &ignored;
    unsigned c = p[0];
    if (c < 0x80) {
        *cp = c;
        return 1;
    }
    /* Range of the second byte by the first (Unicode 15, table 3-7); the others are 80..BF. */
    unsigned len, lo = 0x80, hi = 0xbf;
    if (c >= 0xc2 && c <= 0xdf) {
        len = 2;
        *cp = c & 0x1f;
    } else if (c >= 0xe0 && c <= 0xef) {
        len = 3;
        *cp = c & 0x0f;
        if (c == 0xe0) lo = 0xa0;
        if (c == 0xed) hi = 0x9f;
    } else if (c >= 0xf0 && c <= 0xf4) {
        len = 4;
        *cp = c & 0x07;
        if (c == 0xf0) lo = 0x90;
        if (c == 0xf4) hi = 0x8f;
    } else {
        *skip = 1;
        return PAWL_UTF8_BAD;
    }
    for (unsigned i = 1; i < len; i++) {
        if (i == n) {
            *skip = n;
            return PAWL_UTF8_CUT;
        }
        if (p[i] < lo || p[i] > hi) {
            *skip = i;
            return PAWL_UTF8_BAD;
        }
        *cp = *cp << 6 | (p[i] & 0x3f);
        lo = 0x80;
        hi = 0xbf;
    }
    return (int)len;
}

int pawl__utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

size_t pawl__utf8_valid(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int k = pawl__utf8_decode(s + i, n - i, &cp, 0);
        if (k < 0) return i;
        i += (size_t)k;
    }
    return n;
}
