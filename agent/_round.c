/* One round of CPGT with the quantizer on short vectors, called by agent/compiled.py.

   It computes the numbers of agent/algorithms/cpgt.py, agent/privacy/noise.py and
   agent/compressors/quantizers.py, and the bytes of wire/payloads.py, by the same operations in the
   same order. A change there needs a change here; tests/agent/test_compiled.py compares every bit.

   Compile it without contraction (-ffp-contract=off): a fused multiplication and addition rounds
   once where numpy rounds twice. Little-endian machines only. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <string.h>

enum { X, Y, CHANNELS };
enum { DENSE = 0, PACKED = 32, HEAD = 1 + 4 * CHANNELS, MAX_LEVELS = 64 };

typedef struct {
    PyObject_HEAD
    int bits, top, dimension;
    int number;              /* of coordinates in a message, both channels */
    int digits, base, width; /* levels a byte, in this base; if digits is 0, bits a level */
    Py_ssize_t messages, packed_size, dense_size;
    double alpha, fill, shrink, tiny;
    double magnitude; /* of every coordinate of x and y; infinite: no bound */
    double *weights, *values, *noised, *pull, *reference, *gradient, *received;
} Round;

/* --- levels and bytes ------------------------------------------------------------------------ */

static void pack(const Round *self, const int *levels, unsigned char *out)
{
    if (self->digits) {
        for (int i = 0; i < self->number; out++) {
            int byte = 0;
            for (int digit = 0; digit < self->digits; digit++, i++)
                byte = byte * self->base + (i < self->number ? levels[i] : 0) + self->top;
            *out = (unsigned char)byte;
        }
        return;
    }
    unsigned long held = 0;
    int bits = 0;
    for (int i = 0; i < self->number; i++) {
        held = held << self->width | (unsigned long)(levels[i] + self->top);
        for (bits += self->width; bits >= 8; bits -= 8)
            *out++ = (unsigned char)(held >> (bits - 8));
        held &= (1UL << bits) - 1;
    }
    if (bits)
        *out = (unsigned char)(held << (8 - bits));
}

/* Returns 0 if a byte, or a group of bits, stands for no level. */
static int unpack(const Round *self, const unsigned char *in, int *levels)
{
    if (self->digits) {
        int codes = 1;
        for (int digit = 0; digit < self->digits; digit++)
            codes *= self->base;
        for (int i = 0; i < self->number; in++) {
            if (*in >= codes)
                return 0;
            for (int rest = *in, power = codes / self->base; power && i < self->number; i++) {
                levels[i] = rest / power - self->top;
                rest %= power;
                power /= self->base;
            }
        }
        return 1;
    }
    unsigned long held = 0;
    int bits = 0;
    for (int i = 0; i < self->number; i++) {
        for (; bits < self->width; bits += 8)
            held = held << 8 | *in++;
        bits -= self->width;
        levels[i] = (int)(held >> bits) - self->top;
        held &= (1UL << bits) - 1;
        if (levels[i] > self->top)
            return 0;
    }
    return 1;
}

/* --- sending --------------------------------------------------------------------------------- */

/* C(noised - reference) of one row: writes its levels, and returns its scale. */
static float quantize(const Round *self, const double *noised, const double *reference,
                      const double *dither, int *levels)
{
    double v[MAX_LEVELS], squares = 0.0;
    for (int i = 0; i < self->dimension; i++) {
        v[i] = noised[i] - reference[i];
        squares += v[i] * v[i];
    }
    double norm = sqrt(squares), fill = self->fill / (norm + self->tiny);
    if (!isfinite(norm))
        return INFINITY;
    for (int i = 0; i < self->dimension; i++)
        levels[i] = (int)(v[i] * fill + copysign(dither[i], v[i]));
    return (float)(norm * self->shrink);
}

PyDoc_STRVAR(payload_doc,
             "payload(draw): what is sent. `draw` holds, as doubles, the noise (in lattice steps)\n"
             "of every coordinate, the dither of every coordinate, and the lattice step of every\n"
             "channel. Raises OverflowError if the state is not finite.");

static PyObject *payload(Round *self, PyObject *draw)
{
    int d = self->dimension, levels[MAX_LEVELS];
    float scales[CHANNELS];
    int doubles = 2 * self->number + CHANNELS;
    if (!PyBytes_Check(draw) || PyBytes_GET_SIZE(draw) != (Py_ssize_t)sizeof(double) * doubles)
        return PyErr_Format(PyExc_TypeError, "a draw is bytes of %d doubles", doubles);
    double drawn[2 * MAX_LEVELS + CHANNELS];
    memcpy(drawn, PyBytes_AS_STRING(draw), PyBytes_GET_SIZE(draw));
    const double *z = drawn, *dither = drawn + self->number, *steps = dither + self->number;
    for (int row = 0; row < CHANNELS; row++) {
        int first = row * d;
        for (int i = first; i < first + d; i++)
            self->noised[i] = (rint(self->values[i] / steps[row]) + z[i]) * steps[row];
        scales[row] = quantize(self, self->noised + first, self->reference + first,
                               dither + first, levels + first);
        if (!isfinite(scales[row]))
            return PyErr_Format(PyExc_OverflowError, "the state is not finite");
    }
    PyObject *out = PyBytes_FromStringAndSize(NULL, self->packed_size);
    if (!out)
        return NULL;
    char *bytes = PyBytes_AS_STRING(out);
    bytes[0] = (char)(PACKED + self->bits);
    memcpy(bytes + 1, scales, sizeof scales);
    pack(self, levels, (unsigned char *)bytes + HEAD);
    return out;
}

/* --- receiving ------------------------------------------------------------------------------- */

/* Returns 0 if the payload is neither dense nor of packed levels, or if it is invalid. */
static int decode(const Round *self, const char *bytes, Py_ssize_t size, double *values)
{
    if (size == self->dense_size && bytes[0] == DENSE) {
        memcpy(values, bytes + 1, size - 1);
        for (int i = 0; i < self->number; i++)
            if (!isfinite(values[i]))
                return 0;
        return 1;
    }
    int levels[MAX_LEVELS];
    float scales[CHANNELS];
    if (size != self->packed_size || bytes[0] != PACKED + self->bits)
        return 0;
    if (!unpack(self, (const unsigned char *)bytes + HEAD, levels))
        return 0;
    memcpy(scales, bytes + 1, sizeof scales);
    for (int row = 0; row < CHANNELS; row++) {
        if (!(scales[row] >= 0.0f && isfinite(scales[row])))
            return 0;
        for (int i = row * self->dimension; i < (row + 1) * self->dimension; i++)
            values[i] = (double)scales[row] * levels[i];
    }
    return 1;
}

/* A view of a contiguous buffer that must hold `number` doubles. */
static int get_doubles(PyObject *given, Py_ssize_t number, int flags, Py_buffer *view)
{
    if (PyObject_GetBuffer(given, view, PyBUF_C_CONTIGUOUS | flags) < 0)
        return -1;
    if (view->len == number * (Py_ssize_t)sizeof(double))
        return 0;
    PyErr_Format(PyExc_ValueError, "%zd bytes instead of %zd doubles", view->len, number);
    PyBuffer_Release(view);
    return -1;
}

/* A coordinate of a state, moved into [-magnitude, magnitude]; NaN becomes -magnitude. */
static double bounded(const Round *self, double value)
{
    return isinf(self->magnitude) ? value : fmin(fmax(value, -self->magnitude), self->magnitude);
}

PyDoc_STRVAR(absorb_doc,
             "absorb(payloads, x): add the payloads of all, a list with the own one first, and\n"
             "write the next x into an array. Raises ValueError, and changes nothing, if one of\n"
             "them is neither dense nor of packed levels, or is invalid.");

static PyObject *absorb(Round *self, PyObject *args)
{
    PyObject *payloads, *given;
    Py_buffer x;
    int n = self->number, d = self->dimension;
    if (!PyArg_ParseTuple(args, "O!O", &PyList_Type, &payloads, &given))
        return NULL;
    if (PyList_GET_SIZE(payloads) != self->messages)
        return PyErr_Format(PyExc_ValueError, "%zd payloads expected", self->messages);
    for (Py_ssize_t m = 0; m < self->messages; m++) {
        PyObject *one = PyList_GET_ITEM(payloads, m);
        if (!PyBytes_Check(one) || !PyBytes_GET_SIZE(one) ||
            !decode(self, PyBytes_AS_STRING(one), PyBytes_GET_SIZE(one), self->received + m * n))
            return PyErr_Format(PyExc_ValueError, "payload %zd cannot be decoded here", m);
    }
    if (get_doubles(given, d, PyBUF_WRITABLE, &x) < 0)
        return NULL;
    for (Py_ssize_t m = 0; m < self->messages; m++)
        for (int i = 0; i < n; i++)
            self->pull[i] += self->weights[m] * self->received[m * n + i];
    for (int i = 0; i < n; i++)
        self->reference[i] += self->received[i];
    double *new_x = self->values, *y = self->values + d;
    for (int i = 0; i < d; i++)
        new_x[i] = bounded(self, (self->noised[i] + self->pull[i]) - y[i] * self->alpha);
    memcpy(x.buf, new_x, x.len);
    PyBuffer_Release(&x);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(track_doc,
             "track(gradient): the next y, from the gradient at the x that `absorb` wrote.");

static PyObject *track(Round *self, PyObject *given)
{
    Py_buffer view;
    int d = self->dimension;
    if (get_doubles(given, d, PyBUF_SIMPLE, &view) < 0)
        return NULL;
    const double *gradient = view.buf;
    for (int i = 0; i < d; i++) {
        self->values[d + i] = bounded(
            self, (self->noised[d + i] + self->pull[d + i]) + (gradient[i] - self->gradient[i]));
        self->gradient[i] = gradient[i];
    }
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

/* --- the object ------------------------------------------------------------------------------ */

static PyObject *to_bytes(const double *doubles, int number)
{
    return PyBytes_FromStringAndSize((const char *)doubles, number * (Py_ssize_t)sizeof(double));
}

static PyObject *get_values(Round *self, void *Py_UNUSED(closure))
{
    return to_bytes(self->values, self->number);
}

static PyObject *get_noised(Round *self, void *Py_UNUSED(closure))
{
    return to_bytes(self->noised, self->number);
}

static PyObject *get_reference(Round *self, void *Py_UNUSED(closure))
{
    return to_bytes(self->reference, self->number);
}

/* values, noised, pull, reference and gradient lie behind one another: see set_shape. */
static Py_ssize_t state_size(const Round *self)
{
    return (4 * self->number + self->dimension) * (Py_ssize_t)sizeof(double);
}

static PyObject *get_memory(Round *self, void *Py_UNUSED(closure))
{
    return PyBytes_FromStringAndSize((const char *)self->values, state_size(self));
}

static int set_memory(Round *self, PyObject *stored, void *Py_UNUSED(closure))
{
    if (!stored || !PyBytes_Check(stored) || PyBytes_GET_SIZE(stored) != state_size(self)) {
        PyErr_SetString(PyExc_ValueError, "not the memory of such a state");
        return -1;
    }
    memcpy(self->values, PyBytes_AS_STRING(stored), PyBytes_GET_SIZE(stored));
    return 0;
}

/* Sizes and memory, from bits, dimension and the number of messages. */
static int set_shape(Round *self)
{
    static const int digits[] = {0, 5, 3, 2};
    int bits = self->bits, n = self->number;
    self->top = 1 << (bits - 1);
    self->base = 2 * self->top + 1;
    self->width = bits + 1;
    self->digits = bits <= 3 ? digits[bits] : 0;
    int length = self->digits ? (n + self->digits - 1) / self->digits : (n * self->width + 7) / 8;
    self->packed_size = HEAD + length;
    self->dense_size = 1 + n * (Py_ssize_t)sizeof(double);
    size_t doubles = (size_t)(n * (4 + self->messages) + self->dimension + self->messages);
    double *memory = PyMem_Calloc(doubles, sizeof(double));
    if (!memory)
        return -1;
    self->values = memory;
    self->noised = self->values + n;
    self->pull = self->noised + n;
    self->reference = self->pull + n;
    self->gradient = self->reference + n;
    self->weights = self->gradient + self->dimension;
    self->received = self->weights + self->messages;
    return 0;
}

PyDoc_STRVAR(round_doc,
             "Round(bits, alpha, fill, shrink, tiny, magnitude, weights, values, gradient): the\n"
             "state of one agent. weights (of all messages, the own first), values (2, d) and\n"
             "gradient (d) are bytes of doubles.");

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    int bits;
    double alpha, fill, shrink, tiny, magnitude;
    Py_buffer weights, values, gradient;
    if (!PyArg_ParseTuple(args, "idddddy*y*y*", &bits, &alpha, &fill, &shrink, &tiny,
                          &magnitude, &weights, &values, &gradient))
        return NULL;
    Round *self = NULL;
    Py_ssize_t d = gradient.len / (Py_ssize_t)sizeof(double), unit = sizeof(double);
    if (bits < 1 || bits > 16 || d < 1 || CHANNELS * d > MAX_LEVELS ||
        values.len != CHANNELS * d * unit || gradient.len != d * unit || weights.len < unit ||
        weights.len % unit) {
        PyErr_SetString(PyExc_ValueError, "bits or sizes that are not supported");
    } else if ((self = (Round *)type->tp_alloc(type, 0))) {
        *self = (Round){.ob_base = self->ob_base, .bits = bits, .dimension = (int)d,
                        .number = CHANNELS * (int)d, .messages = weights.len / unit,
                        .alpha = alpha, .fill = fill, .shrink = shrink, .tiny = tiny,
                        .magnitude = magnitude};
        if (set_shape(self) == 0) {
            memcpy(self->weights, weights.buf, weights.len);
            memcpy(self->values, values.buf, values.len);
            memcpy(self->gradient, gradient.buf, gradient.len);
        } else {
            Py_CLEAR(self);
            PyErr_NoMemory();
        }
    }
    PyBuffer_Release(&weights);
    PyBuffer_Release(&values);
    PyBuffer_Release(&gradient);
    return (PyObject *)self;
}

static void discard(Round *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyMem_Free(self->values);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"payload", (PyCFunction)payload, METH_O, payload_doc},
    {"absorb", (PyCFunction)absorb, METH_VARARGS, absorb_doc},
    {"track", (PyCFunction)track, METH_O, track_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"values", (getter)get_values, NULL, "x and y", NULL},
    {"noised", (getter)get_noised, NULL, "x^a and y^a of the last payload", NULL},
    {"reference", (getter)get_reference, NULL, "x^c and y^c", NULL},
    {"memory", (getter)get_memory, (setter)set_memory, "all numbers of the state", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)round_doc}, {Py_tp_new, make},           {Py_tp_dealloc, discard},
    {Py_tp_methods, methods},       {Py_tp_getset, attributes}, {0, NULL},
};

static PyType_Spec spec = {"cpgt.agent._round.Round", sizeof(Round), 0, Py_TPFLAGS_DEFAULT, slots};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT,
                                    .m_name = "cpgt.agent._round", .m_size = -1};

PyMODINIT_FUNC PyInit__round(void)
{
    PyObject *made = PyModule_Create(&module), *type = PyType_FromSpec(&spec);
    if (!made || !type || PyModule_AddObjectRef(made, "Round", type) < 0)
        Py_CLEAR(made);
    Py_XDECREF(type);
    return made;
}
