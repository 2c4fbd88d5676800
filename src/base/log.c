#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int level_now = -1; /* -1: not yet read from the environment */
static int json_lines;

/* Hashes of the lines that pawl__log_once has printed. When full, further lines are printed each time: noisy, not wrong. */
static uint64_t seen[256];
static int n_seen;

static const char *const names[] = {"error", "warn", "info", "debug"};

static int current_level(void)
{
    if (level_now < 0) {
        level_now = PAWL_LOG_WARN;
        const char *e = getenv("PAWL_LOG");
        for (int i = 0; e && i < 4; i++)
            if (!strcmp(e, names[i])) level_now = i;
    }
    return level_now;
}

void pawl__log_set_json(int on)
{
    pthread_mutex_lock(&lock);
    json_lines = on;
    pthread_mutex_unlock(&lock);
}

int pawl__log_enabled(pawl_log_level level)
{
    pthread_mutex_lock(&lock);
    int on = (int)level <= current_level();
    pthread_mutex_unlock(&lock);
    return on;
}

static void put_json_string(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c < 0x20)
            fprintf(f, "\\u%04x", c);
        else
            fputc(c, f);
    }
    fputc('"', f);
}

static void emit(pawl_log_level level, const char *scope, const char *fmt, va_list ap, int once)
{
    char text[1024];
    vsnprintf(text, sizeof text, fmt, ap);
    pthread_mutex_lock(&lock);
    if ((int)level > current_level()) goto out;
    if (once) {
        uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a */
        for (const char *p = text; *p; p++) h = (h ^ (unsigned char)*p) * 0x100000001b3ull;
        for (int i = 0; i < n_seen; i++)
            if (seen[i] == h) goto out;
        if (n_seen < (int)(sizeof seen / sizeof seen[0])) seen[n_seen++] = h;
    }
    if (json_lines) {
        fprintf(stderr, "{\"level\":\"%s\",\"scope\":", names[level]);
        put_json_string(stderr, scope);
        fputs(",\"message\":", stderr);
        put_json_string(stderr, text);
        fputs("}\n", stderr);
    } else {
        fprintf(stderr, "%s %s: %s\n", names[level], scope, text);
    }
out:
    pthread_mutex_unlock(&lock);
}

void pawl__log(pawl_log_level level, const char *scope, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    emit(level, scope, fmt, ap, 0);
    va_end(ap);
}

void pawl__log_once(pawl_log_level level, const char *scope, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    emit(level, scope, fmt, ap, 1);
    va_end(ap);
}
