/* A slow file system for benchmarks, to be preloaded: opening a regular file below $SLOW_ROOT takes $SLOW_MS (100)
 * milliseconds longer, as on object storage or lazily loaded Lustre. At exit the number of such opens is written to
 * the file $SLOW_COUNT, because a program that makes its system calls by itself would not be slowed down at all.
 *
 *     gcc -O2 -shared -fPIC -o slow_open.so slow_open.c
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static atomic_long slowed;
static const char *root;
static size_t root_length;
static long milliseconds = 100;

__attribute__((constructor)) static void start(void) {
    root = getenv("SLOW_ROOT");
    root_length = root ? strlen(root) : 0;
    if (getenv("SLOW_MS")) milliseconds = atol(getenv("SLOW_MS"));
}

__attribute__((destructor)) static void end(void) {
    const char *name = getenv("SLOW_COUNT");
    FILE *file = name ? fopen(name, "w") : NULL;
    if (!file) return;
    fprintf(file, "%ld\n", (long)slowed);
    fclose(file);
}

/* The path is asked of the open file, so that relative names and links are no way round. */
static int slow(int fd) {
    struct stat about;
    char link[64], path[PATH_MAX];
    int saved = errno;
    if (fd < 0 || !root_length || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) goto done;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= (ssize_t)root_length || memcmp(path, root, root_length) != 0 || path[root_length] != '/') goto done;
    atomic_fetch_add(&slowed, 1);
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
done:
    errno = saved;
    return fd;
}

#define NEXT(name, type) ((type)dlsym(RTLD_NEXT, name))

/* the mode is there only if the file may be made */
#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        static int (*next)(const char *, int, ...); \
        if (!next) next = NEXT(#name, int (*)(const char *, int, ...)); \
        MODE(flags) \
        return slow(next(path, flags, mode)); \
    }

#define OPENAT(name) \
    int name(int directory, const char *path, int flags, ...) { \
        static int (*next)(int, const char *, int, ...); \
        if (!next) next = NEXT(#name, int (*)(int, const char *, int, ...)); \
        MODE(flags) \
        return slow(next(directory, path, flags, mode)); \
    }

/* what a program built with _FORTIFY_SOURCE calls */
#define OPEN_2(name) \
    int name(const char *path, int flags) { return slow(NEXT(#name, int (*)(const char *, int))(path, flags)); }

#define OPENAT_2(name) \
    int name(int directory, const char *path, int flags) { \
        return slow(NEXT(#name, int (*)(int, const char *, int))(directory, path, flags)); \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
OPEN_2(__open_2)
OPEN_2(__open64_2)
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)
