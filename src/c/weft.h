/* weft: programs with tensors, run from C without Python.
 *
 * A program is a file that weft.export wrote: functions with their loops, branches and calls, and the tensors that
 * they use. This header is C99 and C++; libweft has nothing else to call. In short:
 *
 *     weft_program* program;
 *     weft_context* context;
 *     weft_error error = {0};
 *     float x[6] = {1, 2, 3, 4, 5, 6};
 *     int64_t shape[2] = {2, 3};
 *     if (weft_load("model.weft", &program, &error) || weft_context_new(program, &context, &error))
 *         return fprintf(stderr, "%s: %s\n", error.kind, error.message), 1;
 *     DLTensor input = weft_dense(x, weft_float32(), 2, shape);
 *     weft_value argument = weft_tensor(&input), result;
 *     if (weft_run(context, "forward", &argument, 1, NULL, &result, &error))
 *         return fprintf(stderr, "%s%s: %s\n", error.trace, error.kind, error.message), 1;
 *     ... result.as.tensor.data ...
 *     weft_value_clear(&result);
 *     weft_context_free(context);
 *     weft_program_free(program);
 *
 * Threads. A program never changes: any number of threads may use one. A context belongs to one thread at a time,
 * and contexts run beside each other without waiting for each other; the tensors of the file lie in memory once. What
 * a call takes is read during the call only; what it gives back belongs to the caller, who may free it from any
 * thread, also after the context. A large operation uses several threads if no other context does at that time
 * (weft_set_threads).
 *
 * Errors. Functions that may fail return 0 if they did not. Else they fill in `error`, unless it is null, and give no
 * result; a context goes on as before.
 *
 * Plans. What a context meets a second time with tensors of the same sizes runs from then on as a plan: calls that
 * follow each other run together, with memory that is laid out before. Results are the same to the bit. Each context makes
 * plans of its own and keeps a limited number; WEFT_COMPILE=0 in the environment, when a context is made, makes none.
 *
 * Products. Large ones are OpenBLAS's on some processors. It is found at run time: the file that the environment
 * variable WEFT_BLAS names; else libscipy_openblas.so, libopenblas.so.0 or libopenblas.so beside libweft, then where
 * the system finds libraries. Without it weft's own products serve, but on processors without AVX2 only smaller ones
 * (256 x 256 x 256). It is loaded with the first product that it is to do, with OPENBLAS_NUM_THREADS=1 in the
 * environment for that moment: where other threads read the environment then, set the variable before.
 *
 * The file is mapped: replace it by renaming another one, do not write into it while it is in use. */
#ifndef WEFT_H
#define WEFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_API __attribute__((visibility("default")))
/* Of an enum that callers fill in: any number may come. C++ gives it none but its own otherwise. */
#ifdef __cplusplus
#define WEFT_ANY_INT : int32_t
#else
#define WEFT_ANY_INT
#endif

/* ---- tensors: DLPack 1.0 (https://dmlc.github.io/dlpack/latest/c_api.html). Who has its own header includes it
 * before this one. */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

typedef enum WEFT_ANY_INT { kDLCPU = 1 } DLDeviceType;
typedef enum {
    kDLInt = 0,
    kDLUInt = 1,
    kDLFloat = 2,
    kDLBfloat = 4,
    kDLComplex = 5,
    kDLBool = 6
} DLDataTypeCode;
typedef struct {
    DLDeviceType device_type;
    int32_t device_id;
} DLDevice;
typedef struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} DLDataType;
typedef struct {
    void* data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t* shape;
    int64_t* strides; /* in elements; null: row-major */
    uint64_t byte_offset;
} DLTensor;
typedef struct {
    uint32_t major;
    uint32_t minor;
} DLPackVersion;
typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void* manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned* self);
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

#endif

/* ---- values */

typedef enum weft_kind WEFT_ANY_INT {
    WEFT_NONE,
    WEFT_BOOL,    /* as.integer, 0 or 1 */
    WEFT_INT,     /* as.integer */
    WEFT_DOUBLE,  /* as.number */
    WEFT_COMPLEX, /* as.complex */
    WEFT_STRING,  /* as.string, UTF-8 */
    WEFT_LIST,    /* as.list */
    WEFT_TUPLE,   /* as.list */
    WEFT_DICT,    /* as.list: a key and its value, `size` times; items has 2 * size */
    WEFT_TENSOR,  /* as.tensor */
    WEFT_BYTES    /* as.string, any bytes */
} weft_kind;

typedef struct weft_value weft_value;
struct weft_value {
    weft_kind kind;
    union {
        int64_t integer;
        double number;
        struct {
            double real, imag;
        } complex;
        struct {
            const char* data; /* of a result: ended by a 0 too */
            size_t size;
        } string;
        struct {
            weft_value* items;
            size_t size;
        } list;
        struct {
            DLTensor* data;
            /* Of a result: what `data` lies in. Who sets it to null keeps the tensor, and calls its deleter when
             * it is done with it. Of an argument: not looked at. */
            DLManagedTensorVersioned* owner;
        } tensor;
    } as;
};

static inline weft_value weft_none(void) {
    weft_value v = {WEFT_NONE, {0}};
    return v;
}
static inline weft_value weft_bool(int truth) {
    weft_value v = {WEFT_BOOL, {0}};
    v.as.integer = truth != 0;
    return v;
}
static inline weft_value weft_int(int64_t integer) {
    weft_value v = {WEFT_INT, {0}};
    v.as.integer = integer;
    return v;
}
static inline weft_value weft_double(double number) {
    weft_value v = {WEFT_DOUBLE, {0}};
    v.as.number = number;
    return v;
}
static inline weft_value weft_string(const char* data, size_t size) {
    weft_value v = {WEFT_STRING, {0}};
    v.as.string.data = data;
    v.as.string.size = size;
    return v;
}
static inline weft_value weft_bytes(const void* data, size_t size) {
    weft_value v = weft_string((const char*)data, size);
    v.kind = WEFT_BYTES;
    return v;
}
static inline weft_value weft_list(weft_value* items, size_t size) {
    weft_value v = {WEFT_LIST, {0}};
    v.as.list.items = items;
    v.as.list.size = size;
    return v;
}
static inline weft_value weft_tuple(weft_value* items, size_t size) {
    weft_value v = weft_list(items, size);
    v.kind = WEFT_TUPLE;
    return v;
}
/* `items`: a key, its value, the next key, ... */
static inline weft_value weft_dict(weft_value* items, size_t pairs) {
    weft_value v = weft_list(items, pairs);
    v.kind = WEFT_DICT;
    return v;
}
static inline weft_value weft_tensor(DLTensor* tensor) {
    weft_value v = {WEFT_TENSOR, {0}};
    v.as.tensor.data = tensor;
    return v;
}

static inline DLDataType weft_dtype(DLDataTypeCode code, int bits) {
    DLDataType t;
    t.code = (uint8_t)code;
    t.bits = (uint8_t)bits;
    t.lanes = 1;
    return t;
}
static inline DLDataType weft_float32(void) { return weft_dtype(kDLFloat, 32); }
static inline DLDataType weft_float64(void) { return weft_dtype(kDLFloat, 64); }
static inline DLDataType weft_int64(void) { return weft_dtype(kDLInt, 64); }
/* A row-major tensor over `data`. `shape` is not copied. */
static inline DLTensor weft_dense(void* data, DLDataType dtype, int32_t ndim, int64_t* shape) {
    DLTensor t;
    t.data = data;
    t.device.device_type = kDLCPU;
    t.device.device_id = 0;
    t.ndim = ndim;
    t.dtype = dtype;
    t.shape = shape;
    t.strides = NULL;
    t.byte_offset = 0;
    return t;
}

/* Frees what a result holds, and makes it None. Not for what weft_run did not fill in. */
WEFT_API void weft_value_clear(weft_value* value);

/* ---- errors */

typedef struct weft_error {
    char* kind; /* as Python calls it: "ValueError" */
    char* message;
    char* trace; /* the program's lines, one or two text lines for each, outermost first; or "" */
} weft_error;

/* Frees the texts. An error that a function fills in has to be empty: {0}, or cleared. */
WEFT_API void weft_error_clear(weft_error* error);

/* ---- programs */

typedef struct weft_program weft_program;

/* Maps and checks a file: no code of it runs. An error's kind is ValueError where the file breaks a rule, or is of a
 * newer version; RuntimeError where it cannot be read. */
WEFT_API int weft_load(const char* path, weft_program** program, weft_error* error);
/* Contexts go on; what they share is freed with the last of them. Null is allowed. */
WEFT_API void weft_program_free(weft_program* program);
/* The names that weft_run takes. */
WEFT_API size_t weft_program_entries(const weft_program* program);
WEFT_API const char* weft_program_entry(const weft_program* program, size_t k);

/* ---- contexts */

typedef struct weft_context weft_context;

WEFT_API int weft_context_new(weft_program* program, weft_context** context, weft_error* error);
/* Results stay. Null is allowed. */
WEFT_API void weft_context_free(weft_context* context);

/* Calls the entry of that name (null: "forward") with `count` positional arguments and, unless it is null, those of
 * `named`, a dict of strings. `result` gets what it returns, to be freed with weft_value_clear; it need not be
 * initialised.
 *
 * Arguments are numbers, strings, bytes, tensors on the CPU, and lists, tuples and dicts of them, in each other up to
 * 1000 deep. A list or a dict is copied. A tensor is not, unless the program keeps state between calls: a program that
 * writes into its argument then writes into your memory. Results are never parts of your arguments: one that the
 * program hands back is copied, as the caller frees the result and goes on to write the argument.
 *
 * Results are of these kinds too. An object with named fields, a named tuple among them, comes as a dict of them, a
 * torch.Size as a tuple, a device as the string "cpu"; a generator, as any iterator, is gone through and comes as a
 * list, and so do a dict's keys(), values() and items(). A TypeError are all others: ranges, sets, slices, dtypes,
 * types, functions, exceptions. Integers have 64 bits: what needs more is an OverflowError.
 *
 * Nothing is recorded for gradients, unless the program asks for it. */
WEFT_API int weft_run(weft_context* context, const char* entry, const weft_value* args,
                      size_t count, const weft_value* named, weft_value* result, weft_error* error);

/* Ends the call that runs in the context, or the next one if none does, with a KeyboardInterrupt: within some
 * thousand steps of the program, after the operation that runs. From any thread, and from a signal handler. */
WEFT_API void weft_interrupt(weft_context* context);

/* The context's random numbers; they begin as after weft.manual_seed() of a fixed number. */
WEFT_API int weft_seed(weft_context* context, uint64_t seed, weft_error* error);

/* ---- the library */

/* Threads that one operation may use, of the whole process; at first WEFT_NUM_THREADS, or the cores. */
WEFT_API void weft_set_threads(int count);
WEFT_API int weft_threads(void);
/* "0.1.0" */
WEFT_API const char* weft_version(void);

#ifdef __cplusplus
}
#endif
#endif
