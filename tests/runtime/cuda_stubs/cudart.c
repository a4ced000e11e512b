/* A CUDA runtime that computes nothing: device memory is host memory, kernels do nothing, streams
 * keep no order, and every launch, copy, wait and allocation is written to a log while recording.
 *
 * A device answers as an H200 (compute capability 9.0). What a thread does between
 * cudaStreamBeginCapture and cudaStreamEndCapture is logged with "[capture] " before it.
 *
 * Rules of CUDA that are enforced: each thread has its own current device; memory belongs to the
 * device that was current; a kernel needs a stream of the current device; after stub_break, every
 * call on a device fails with one error; memory is limited; and what a thread may do during captures
 * follows cudaThreadExchangeStreamCaptureMode.
 */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#undef cudaGetDeviceProperties
#define X __attribute__((visibility("default")))

/* What a host has, by environment variables. */
static long stub_number(const char *name, long usual) {
    const char *value = getenv(name);
    return value ? atol(value) : usual;
}
/* The number for a device in a list such as "90,61"; the last one counts for further devices. */
static long stub_listed(const char *name, int device, long usual) {
    const char *value = getenv(name);
    if (!value) return usual;
    for (const char *next; device > 0 && (next = strchr(value, ',')); device--) value = next + 1;
    return atol(value);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int current;
/* Of this thread; cudaGetLastError returns it once, and so fails the kernel launched next. */
static __thread int last_error;
static int failed(int error) { return last_error = error; }
static __thread int captures_here;

/* ---- broken devices ---- */

#define DEVICES 16
#define LEGACY ((cudaStream_t)1)
#define PER_THREAD ((cudaStream_t)2)
struct CUstream_st { int device; int capturing; long owner; int mode; int broken; };
static int broken[DEVICES];
/* From now on every call on the device fails with the error; 0 mends it, as no real device does. */
X void stub_break(int device, int error) { broken[device] = error; }
static int device_of(cudaStream_t s) { return s > PER_THREAD ? s->device : current; }
#define LIVE if (broken[current]) return failed(broken[current]);
#define LIVE_ON(s) if (broken[device_of(s)]) return failed(broken[device_of(s)]);

/* ---- captures ---- */

#define STREAMS 4096
static cudaStream_t streams[STREAMS];
static int stream_count;
static __thread int mode_here = cudaStreamCaptureModeGlobal;
/* Captures that another thread's call invalidated. */
X long stub_conflicts;

/* Whether this thread may not make a potentially unsafe call; invalidates the captures concerned. */
static int prohibited(int unconditionally) {
    int found = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < stream_count; i++) {
        cudaStream_t s = streams[i];
        if (!s || !s->capturing) continue;
        int own = s->owner == (long)pthread_self();
        int unsafe = own ? s->mode != cudaStreamCaptureModeRelaxed &&
                               mode_here != cudaStreamCaptureModeRelaxed
                         : s->mode == cudaStreamCaptureModeGlobal &&
                               mode_here == cudaStreamCaptureModeGlobal;
        if (unsafe || (unconditionally && s->device == current)) {
            s->broken = found = 1;
            stub_conflicts++;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}
#define UNSAFE if (prohibited(0)) return failed(cudaErrorStreamCaptureUnsupported);

/* ---- the log ---- */

typedef struct { char text[320]; } Event;
static Event *events;
static long count, room;
static int recording;

static void write_event(const char *format, va_list values) {
    if (count == room) {
        room = room ? 2 * room : 65536;
        events = realloc(events, room * sizeof(Event));
    }
    char *text = events[count++].text;
    int used = captures_here ? snprintf(text, sizeof(Event), "[capture] ") : 0;
    vsnprintf(text + used, sizeof(Event) - used, format, values);
}
/* Used by the other stubs, too. */
X void stub_log(const char *format, ...) {
    if (!recording) return;
    va_list values;
    va_start(values, format);
    pthread_mutex_lock(&lock);
    write_event(format, values);
    pthread_mutex_unlock(&lock);
    va_end(values);
}
X void stub_start(void) { count = 0; recording = 1; }
/* Stop recording, and write one event per line; returns how many there were. */
X long stub_stop(const char *path) {
    recording = 0;
    FILE *file = fopen(path, "w");
    if (!file) return -1;
    for (long i = 0; i < count; i++) fprintf(file, "%s\n", events[i].text);
    fclose(file);
    return count;
}

/* ---- kernels: registered by name when the library is loaded ---- */

#define NAMES (1 << 18)
static struct { const void *kernel; const char *name; } names[NAMES];

static unsigned place_of(const void *kernel) {
    unsigned i = (unsigned)(((unsigned long)kernel >> 3) * 2654435761u) & (NAMES - 1);
    while (names[i].kernel && names[i].kernel != kernel) i = (i + 1) & (NAMES - 1);
    return i;
}
static void name_kernel(const void *kernel, const char *name) {
    unsigned i = place_of(kernel);
    names[i].kernel = kernel;
    names[i].name = name;
}
static int launch(const void *kernel, dim3 g, dim3 b, size_t shared, cudaStream_t s) {
    LIVE_ON(s)
    if (device_of(s) != current) return cudaErrorInvalidResourceHandle;
    const char *name = names[place_of(kernel)].name;
    stub_log("KERNEL %s grid %u,%u,%u block %u,%u,%u shared %zu stream %p", name ? name : "?",
             g.x, g.y, g.z, b.x, b.y, b.z, shared, (void *)s);
    return 0;
}
X void **__cudaRegisterFatBinary(void *b) { static void *handle[2]; return handle; }
X void __cudaRegisterFatBinaryEnd(void **b) {}
X void __cudaUnregisterFatBinary(void **b) {}
X void __cudaRegisterFunction(void **h, const char *on_host, char *d, const char *name, int t,
                              void *a, void *b, void *c, void *e, int *f) {
    name_kernel(on_host, name);
}
X void __cudaRegisterVar(void **a, char *b, char *c, const char *d, int e, size_t f, int g, int h) {}
static __thread dim3 grid, block;
static __thread size_t shared_bytes;
static __thread void *on_stream;
X unsigned __cudaPushCallConfiguration(dim3 g, dim3 b, size_t s, void *stream) {
    grid = g; block = b; shared_bytes = s; on_stream = stream;
    return 0;
}
X cudaError_t __cudaPopCallConfiguration(dim3 *g, dim3 *b, size_t *s, void *stream) {
    *g = grid; *b = block; *s = shared_bytes; *(void **)stream = on_stream;
    return 0;
}
X cudaError_t __cudaGetKernel(cudaKernel_t *k, const void *f) { *k = (cudaKernel_t)f; return 0; }
X cudaError_t __cudaLaunchKernel(cudaKernel_t k, dim3 g, dim3 b, void **a, size_t n, cudaStream_t s) {
    return launch(k, g, b, n, s);
}
X cudaError_t cudaLaunchKernel(const void *k, dim3 g, dim3 b, void **a, size_t n, cudaStream_t s) {
    return launch(k, g, b, n, s);
}
X cudaError_t cudaLaunchCooperativeKernel(const void *k, dim3 g, dim3 b, void **a, size_t n,
                                          cudaStream_t s) {
    return launch(k, g, b, n, s);
}
X cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *k, void **a) {
    return launch(k, c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream);
}
X cudaError_t cudaLibraryLoadData(cudaLibrary_t *l, const void *c, enum cudaJitOption *o, void **v,
                                  unsigned n, enum cudaLibraryOption *p, void **w, unsigned m) {
    *l = malloc(8);
    return 0;
}
X cudaError_t cudaLibraryGetKernel(cudaKernel_t *k, cudaLibrary_t l, const char *name) {
    *k = (cudaKernel_t)strdup(name);
    name_kernel(*k, (const char *)*k);
    return 0;
}
X cudaError_t cudaLibraryUnload(cudaLibrary_t l) { return 0; }
X cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *f) {
    memset(a, 0, sizeof *a);
    a->maxThreadsPerBlock = 1024;
    a->numRegs = 64;
    a->binaryVersion = a->ptxVersion = 90;
    a->maxDynamicSharedSizeBytes = 232448;
    return 0;
}
X cudaError_t cudaFuncSetAttribute(const void *f, enum cudaFuncAttribute a, int v) { return 0; }
X cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t k, enum cudaFuncAttribute a, int v,
                                              int d) { return 0; }
X cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *f, int b,
                                                                     size_t s, unsigned x) {
    *n = 2;
    return 0;
}
static int nothing(void) { return 0; }
X cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **f, unsigned v,
                                               unsigned long long x,
                                               enum cudaDriverEntryPointQueryResult *found) {
    *f = (void *)nothing;
    if (found) *found = 0;
    return 0;
}

/* ---- memory ---- */

#define BLOCKS 65536
#define MAPPED (1u << 20)
static struct { char *start; size_t size; int device; } blocks[BLOCKS];
static int block_count;
static size_t taken[DEVICES];
static long mallocs[DEVICES];
X size_t stub_bytes(int device) { return taken[device]; }
X long stub_mallocs(int device) { return mallocs[device]; }

/* Megabytes of a device, and of them those in use by other processes. */
static size_t all_bytes(void) { return (size_t)stub_number("STUB_MEMORY", 142336) << 20; }
static size_t free_bytes(void) {
    size_t used = taken[current] + ((size_t)stub_number("STUB_USED", 9216) << 20);
    return used < all_bytes() ? all_bytes() - used : 0;
}
/* Large blocks are maps, whose pages take no memory until they are written. */
static void *allocate(size_t size) {
    void *start = 0;
    if (size >= MAPPED) {
        start = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0);
        if (start == MAP_FAILED) return 0;
    } else {
        if (posix_memalign(&start, 512, size ? size : 1)) return 0;
        memset(start, 0, size);
    }
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < block_count && blocks[i].start) i++;
    if (i == block_count) block_count++;
    blocks[i].start = start;
    blocks[i].size = size;
    blocks[i].device = current;
    taken[current] += size;
    mallocs[current]++;
    pthread_mutex_unlock(&lock);
    return start;
}
static int on_device(const void *p) {
    int found = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < block_count && !found; i++)
        found = blocks[i].start && (char *)p >= blocks[i].start &&
                (char *)p < blocks[i].start + blocks[i].size;
    pthread_mutex_unlock(&lock);
    return found;
}
/* Large stretches of device memory are not copied, and given back instead of filled: nothing reads
 * them, since kernels do nothing. */
static void move(void *to, const void *from, size_t n) {
    if (n < MAPPED || !on_device(to) || !on_device(from)) memmove(to, from, n);
}
static void fill(void *p, int v, size_t n) {
    char *page = (char *)(((unsigned long)p + 4095) & ~4095ul);
    if (n >= MAPPED && !v && page + MAPPED / 2 < (char *)p + n) {
        size_t whole = ((char *)p + n - page) & ~4095ul;
        memset(p, 0, page - (char *)p);
        madvise(page, whole, MADV_DONTNEED);
        memset(page + whole, 0, (char *)p + n - page - whole);
    } else memset(p, v, n);
}
/* Which way a copy really goes, whatever it was called with. */
static const char *way(const void *to, const void *from) {
    static const char *ways[] = {"H2H", "H2D", "D2H", "D2D"};
    return ways[2 * on_device(from) + on_device(to)];
}
X cudaError_t cudaMalloc(void **p, size_t n) {
    stub_log("MALLOC cudaMalloc %zu device %d", n, current);
    LIVE UNSAFE
    if (n > stub_number("STUB_BLOCK", 1l << 40) || n > free_bytes())
        return failed(cudaErrorMemoryAllocation);
    *p = allocate(n);
    return *p ? 0 : failed(cudaErrorMemoryAllocation);
}
X cudaError_t cudaMallocFromPoolAsync(void **p, size_t n, cudaMemPool_t q, cudaStream_t s) {
    stub_log("MALLOC cudaMallocFromPoolAsync %zu", n);
    *p = allocate(n);
    return *p ? 0 : cudaErrorMemoryAllocation;
}
static cudaError_t pinned(void **p, size_t n) {
    stub_log("MALLOC pinned %zu", n);
    LIVE UNSAFE
    return posix_memalign(p, 512, n ? n : 1) ? cudaErrorMemoryAllocation : 0;
}
X cudaError_t cudaMallocHost(void **p, size_t n) { return pinned(p, n); }
X cudaError_t cudaHostAlloc(void **p, size_t n, unsigned flags) { return pinned(p, n); }
X cudaError_t cudaFreeHost(void *p) {
    stub_log("FREE pinned");
    LIVE UNSAFE
    free(p);
    return 0;
}
X cudaError_t cudaFree(void *p) {
    if (!p) return 0;
    LIVE UNSAFE
    size_t size = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < block_count; i++)
        if (blocks[i].start == p) {
            size = blocks[i].size;
            taken[blocks[i].device] -= size;
            blocks[i].start = 0;
        }
    pthread_mutex_unlock(&lock);
    stub_log("FREE cudaFree %zu", size);
    if (size >= MAPPED) munmap(p, size);
    else free(p);
    return 0;
}
X cudaError_t cudaFreeAsync(void *p, cudaStream_t s) { return cudaFree(p); }
X cudaError_t cudaMemcpy(void *to, const void *from, size_t n, enum cudaMemcpyKind k) {
    stub_log("COPY %s waits %zu", way(to, from), n);
    LIVE UNSAFE
    move(to, from, n);
    return 0;
}
X cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind k,
                              cudaStream_t s) {
    stub_log("COPY %s async %zu stream %p", way(to, from), n, (void *)s);
    LIVE_ON(s)
    move(to, from, n);
    return 0;
}
static cudaError_t copy_2d(void *to, size_t tp, const void *from, size_t fp, size_t w, size_t h) {
    if (w * h < MAPPED || !on_device(to) || !on_device(from))
        for (size_t i = 0; i < h; i++) memmove((char *)to + i * tp, (char *)from + i * fp, w);
    return 0;
}
X cudaError_t cudaMemcpy2D(void *to, size_t tp, const void *from, size_t fp, size_t w, size_t h,
                           enum cudaMemcpyKind k) {
    stub_log("COPY %s waits %zu x %zu", way(to, from), w, h);
    LIVE UNSAFE
    return copy_2d(to, tp, from, fp, w, h);
}
X cudaError_t cudaMemcpy2DAsync(void *to, size_t tp, const void *from, size_t fp, size_t w, size_t h,
                                enum cudaMemcpyKind k, cudaStream_t s) {
    stub_log("COPY %s async %zu x %zu stream %p", way(to, from), w, h, (void *)s);
    LIVE_ON(s)
    return copy_2d(to, tp, from, fp, w, h);
}
X cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t n, size_t offset,
                                   enum cudaMemcpyKind k) {
    stub_log("COPY symbol %zu", n);
    memset(to, 0, n);
    return 0;
}
X cudaError_t cudaMemset(void *p, int v, size_t n) {
    stub_log("MEMSET waits %zu", n);
    LIVE UNSAFE
    fill(p, v, n);
    return 0;
}
X cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t s) {
    stub_log("MEMSET async %zu", n);
    LIVE_ON(s)
    fill(p, v, n);
    return 0;
}
static cudaError_t fill_2d(void *p, size_t pitch, int v, size_t w, size_t h) {
    if (pitch > 2147483647ul) return cudaErrorInvalidPitchValue;
    for (size_t i = 0; i < h; i++) fill((char *)p + i * pitch, v, w);
    return 0;
}
X cudaError_t cudaMemset2D(void *p, size_t pitch, int v, size_t w, size_t h) {
    stub_log("MEMSET waits %zu x %zu", w, h);
    LIVE UNSAFE
    return fill_2d(p, pitch, v, w, h);
}
X cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int v, size_t w, size_t h, cudaStream_t s) {
    stub_log("MEMSET async %zu x %zu", w, h);
    LIVE_ON(s)
    return fill_2d(p, pitch, v, w, h);
}
X cudaError_t cudaMemGetInfo(size_t *unused, size_t *all) {
    LIVE
    *unused = free_bytes();
    *all = all_bytes();
    return 0;
}
X cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p) {
    memset(a, 0, sizeof *a);
    a->type = on_device(p) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    a->devicePointer = (void *)p;
    return 0;
}
X cudaError_t cudaMemPoolCreate(cudaMemPool_t *p, const struct cudaMemPoolProps *q) {
    *p = malloc(8);
    return 0;
}
X cudaError_t cudaMemPoolDestroy(cudaMemPool_t p) { return 0; }
X cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t p, enum cudaMemPoolAttr a, void *v) { return 0; }
X cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t p, enum cudaMemPoolAttr a, void *v) { return 0; }
X cudaError_t cudaMemPoolTrimTo(cudaMemPool_t p, size_t n) { return 0; }

/* ---- the device ---- */

X cudaError_t cudaGetDeviceCount(int *n) {
    static time_t first;
    if (!first) first = time(0);
    *n = stub_number("STUB_GPUS", 1);
    if (stub_number("STUB_DRIVER", 13000) < 13000) return cudaErrorInsufficientDriver;
    if (time(0) - first < stub_number("STUB_ERROR_SECONDS", 1 << 30) && getenv("STUB_ERROR"))
        return stub_number("STUB_ERROR", 0);
    return *n ? 0 : cudaErrorNoDevice;
}
X cudaError_t cudaGetDevice(int *n) { *n = current; return 0; }
X cudaError_t cudaSetDevice(int n) {
    if (n < 0 || n >= stub_number("STUB_GPUS", 1)) return cudaErrorInvalidDevice;
    current = n;
    return broken[n];
}
X cudaError_t cudaDriverGetVersion(int *v) { *v = stub_number("STUB_DRIVER", 13000); return 0; }
X cudaError_t cudaRuntimeGetVersion(int *v) { *v = 13000; return 0; }
X cudaError_t cudaDeviceGetPCIBusId(char *name, int size, int d) {
    snprintf(name, size, "0000:%02x:00.0", d + 1);
    return 0;
}
X cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int d) {
    memset(p, 0, sizeof *p);
    long capability = stub_listed("STUB_CAPABILITY", d, 90);
    strcpy(p->name, capability == 61 ? "NVIDIA GeForce GTX 1080" : "NVIDIA H200");
    for (int i = 0; i < 16; i++) p->uuid.bytes[i] = 16 * d + i;
    p->totalGlobalMem = all_bytes();
    p->major = capability / 10;
    p->minor = capability % 10;
    p->multiProcessorCount = capability == 75 ? 40 : 132;
    p->warpSize = 32;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->sharedMemPerBlock = 49152;
    p->sharedMemPerBlockOptin = capability == 90 ? 232448 : capability == 75 ? 65536 : 101376;
    p->sharedMemPerMultiprocessor = 233472;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxBlocksPerMultiProcessor = 32;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 2147483647;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->memPitch = 2147483647;
    p->totalConstMem = 65536;
    p->l2CacheSize = 62914560;
    p->unifiedAddressing = p->cooperativeLaunch = p->concurrentKernels = 1;
    return 0;
}
X cudaError_t cudaDeviceGetAttribute(int *v, enum cudaDeviceAttr a, int d) {
    switch (a) {
        case cudaDevAttrMultiProcessorCount: *v = 132; break;
        case cudaDevAttrComputeCapabilityMajor: *v = stub_listed("STUB_CAPABILITY", d, 90) / 10; break;
        case cudaDevAttrComputeCapabilityMinor: *v = stub_listed("STUB_CAPABILITY", d, 90) % 10; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *v = 49152; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *v = 232448; break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *v = 233472; break;
        case cudaDevAttrMaxThreadsPerBlock: *v = 1024; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *v = 2048; break;
        case cudaDevAttrWarpSize: *v = 32; break;
        default: *v = 1;
    }
    return 0;
}
static const struct { int code; const char *name, *text; } errors[] = {
    {2, "cudaErrorMemoryAllocation", "out of memory"},
    {100, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {214, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
    {400, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {700, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {802, "cudaErrorSystemNotReady", "system not yet initialized"},
    {803, "cudaErrorSystemDriverMismatch", "system has unsupported display driver / cuda driver "
                                           "combination"},
    {900, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {901, "cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during "
                                               "capture"},
    {999, "cudaErrorUnknown", "unknown error"},
};
static const char *worded(int code, int named) {
    for (unsigned i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) return named ? errors[i].name : errors[i].text;
    return "unrecognized error code";
}
X const char *cudaGetErrorName(cudaError_t e) { return worded(e, 1); }
X const char *cudaGetErrorString(cudaError_t e) { return worded(e, 0); }
X cudaError_t cudaGetLastError(void) {
    int error = last_error;
    last_error = 0;
    return error;
}
X cudaError_t cudaPeekAtLastError(void) { return last_error; }

/* ---- streams, events, graphs ---- */

X cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned f) {
    LIVE
    stub_log("STREAM create device %d", current);
    *s = calloc(1, sizeof **s);
    (*s)->device = current;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < stream_count && streams[i]) i++;
    if (i == stream_count) stream_count++;
    streams[i] = *s;
    pthread_mutex_unlock(&lock);
    return 0;
}
X cudaError_t cudaStreamCreate(cudaStream_t *s) { return cudaStreamCreateWithFlags(s, 0); }
X cudaError_t cudaStreamDestroy(cudaStream_t s) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < stream_count; i++)
        if (streams[i] == s) streams[i] = 0;
    pthread_mutex_unlock(&lock);
    /* Not freed: sessions keep the address of a stream that is gone. */
    return 0;
}
X cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    stub_log("SYNC stream %p", (void *)s);
    LIVE_ON(s)
    if (s > PER_THREAD && s->capturing) {
        s->broken = 1;
        return cudaErrorStreamCaptureUnsupported;
    }
    return 0;
}
X cudaError_t cudaDeviceSynchronize(void) {
    stub_log("SYNC device");
    LIVE
    return prohibited(1) ? cudaErrorStreamCaptureUnsupported : 0;
}
X cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    enum cudaStreamCaptureMode before = mode_here;
    mode_here = *mode;
    *mode = before;
    return 0;
}
X cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned f) {
    stub_log("EVENT wait");
    return 0;
}
X cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned f) {
    LIVE
    stub_log("EVENT create flags %u", f);
    *e = malloc(8);
    return 0;
}
X cudaError_t cudaEventCreate(cudaEvent_t *e) { return cudaEventCreateWithFlags(e, 0); }
X cudaError_t cudaEventDestroy(cudaEvent_t e) { return 0; }
X cudaError_t cudaEventElapsedTime(float *f, cudaEvent_t a, cudaEvent_t b) { *f = 1; return 0; }
X cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    stub_log("EVENT record");
    LIVE_ON(s)
    return 0;
}
X cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned f) {
    return cudaEventRecord(e, s);
}
X cudaError_t cudaEventSynchronize(cudaEvent_t e) {
    stub_log("SYNC event");
    LIVE
    return 0;
}
X cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void *u) {
    stub_log("HOSTFUNC");
    f(u);
    return 0;
}
X cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode m) {
    stub_log("GRAPH begin capture, mode %d", (int)m);
    LIVE_ON(s)
    pthread_mutex_lock(&lock);
    s->capturing = 1;
    s->owner = (long)pthread_self();
    s->mode = m;
    s->broken = 0;
    pthread_mutex_unlock(&lock);
    captures_here++;
    return 0;
}
X cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g) {
    pthread_mutex_lock(&lock);
    s->capturing = 0;
    pthread_mutex_unlock(&lock);
    captures_here--;
    stub_log("GRAPH end capture");
    *g = 0;
    LIVE_ON(s)
    if (s->broken) return cudaErrorStreamCaptureInvalidated;
    *g = malloc(8);
    return 0;
}
X cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *c) {
    *c = s > PER_THREAD && s->capturing ? cudaStreamCaptureStatusActive
                                        : cudaStreamCaptureStatusNone;
    return 0;
}
X cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g, unsigned long long f) {
    *e = malloc(8);
    stub_log("GRAPH instantiate");
    return 0;
}
X cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s) {
    stub_log("GRAPH launch %p", (void *)e);
    LIVE_ON(s)
    return 0;
}
X cudaError_t cudaGraphDestroy(cudaGraph_t g) { return 0; }
X cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g) {
    LIVE UNSAFE
    free(g);
    return 0;
}
