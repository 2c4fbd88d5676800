/* Signals are the program's business, never the library's. */
#include "cli/cli.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

static pawl_session *volatile guarded;
static volatile sig_atomic_t interrupts;
static atomic_flag bus_error_seen = ATOMIC_FLAG_INIT;

static void on_interrupt(int sig)
{
    (void)sig;
    if (!guarded || ++interrupts > 1) _exit(CLI_INTERRUPTED);
    pawl_session_cancel(guarded); /* async-signal-safe by contract */
}

static void put(const char *s)
{
    ssize_t ignored = write(STDERR_FILENO, s, strlen(s));
    (void)ignored;
}

/* A mapped file that was cut, or whose disk failed, shows up here. */
static void on_bus_error(int sig, siginfo_t *info, void *context)
{
    (void)context;
    const char *path = pawl__map_owner(info->si_addr);
    if (path) {
        /* Several threads may come here at once: the first speaks, the others wait for the end. */
        while (atomic_flag_test_and_set(&bus_error_seen)) pause();
        put("pawl: ");
        put(path);
        put(": the file was cut short, or could not be read, while it was in use\n");
        _exit(CLI_FAILED);
    }
    signal(sig, SIG_DFL); /* not ours: returning repeats the access and ends the program as usual */
}

static void install(int sig, void (*plain)(int), void (*with_info)(int, siginfo_t *, void *))
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sigemptyset(&sa.sa_mask);
    if (with_info) {
        sa.sa_flags = SA_SIGINFO;
        sa.sa_sigaction = with_info;
    } else {
        sa.sa_handler = plain; /* no SA_RESTART: a read at chat's prompt has to return */
    }
    sigaction(sig, &sa, NULL);
}

void cli_signals_init(void)
{
    install(SIGPIPE, SIG_IGN, NULL);
    install(SIGBUS, NULL, on_bus_error);
}

void cli_signals_guard(pawl_session *s)
{
    guarded = s;
    interrupts = 0;
    install(SIGINT, s ? on_interrupt : SIG_DFL, NULL);
}

static void on_interrupt_idle(int sig)
{
    (void)sig;
}

void cli_signals_idle(int on)
{
    install(SIGINT, on ? on_interrupt_idle : SIG_DFL, NULL);
}

int cli_signals_interrupts(void)
{
    return interrupts;
}
