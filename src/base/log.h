/* Log lines on stderr: "level scope: message key=value", or one JSON object a line. stdout is never touched.
 * The level comes from PAWL_LOG=error|warn|info|debug; default warn. */
#ifndef PAWL_BASE_LOG_H
#define PAWL_BASE_LOG_H

typedef enum pawl_log_level { PAWL_LOG_ERROR, PAWL_LOG_WARN, PAWL_LOG_INFO, PAWL_LOG_DEBUG } pawl_log_level;

void pawl__log(pawl_log_level level, const char *scope, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* As pawl__log, but a text that this process has logged by this call before is not repeated. */
void pawl__log_once(pawl_log_level level, const char *scope, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void pawl__log_set_json(int on);
int pawl__log_enabled(pawl_log_level level);

#endif
