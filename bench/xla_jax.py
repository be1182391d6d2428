"""xla_jax.py [--layers N] [--width N] [--batch N] [--length N] [--steps N] - the training step of xla_bert.c in JAX, jitted with its state
donated: BERT for sequence classification with dropout, cross entropy, AdamW, in f32. Prints the milliseconds of a step and the seconds
that compiling took; xla.py runs both."""
import argparse
import functools
import time

import jax
import jax.numpy as jnp

VOCABULARY, POSITIONS, HEAD_WIDTH, LABELS, WARM_UP = 30522, 512, 64, 2, 3
DROPOUT, EPSILON = 0.1, 1e-12
LR, DECAY, BETA1, BETA2, ADAM_EPSILON = 3e-5, 0.01, 0.9, 0.999, 1e-8


def initial(key, args):
    """Parameters as BERT draws them."""
    keys = iter(jax.random.split(key, 8 * args.layers + 8))
    width = args.width

    def table(rows, columns):
        return 0.02 * jax.random.normal(next(keys), (rows, columns))

    def dense(inputs, outputs):
        return {"w": table(inputs, outputs), "b": jnp.zeros(outputs)}

    def norm():
        return {"w": jnp.ones(width), "b": jnp.zeros(width)}

    return {"words": table(VOCABULARY, width), "positions": table(POSITIONS, width), "types": table(2, width), "norm": norm(),
            "layers": [{"q": dense(width, width), "k": dense(width, width), "v": dense(width, width), "out": dense(width, width),
                        "norm1": norm(), "up": dense(width, 4 * width), "down": dense(4 * width, width), "norm2": norm()}
                       for _ in range(args.layers)],
            "pooler": dense(width, width), "classifier": dense(width, LABELS)}


def linear(x, p):
    return x @ p["w"] + p["b"]


def normalise(x, p):
    away = x - x.mean(-1, keepdims=True)
    return away * jax.lax.rsqrt((away * away).mean(-1, keepdims=True) + EPSILON) * p["w"] + p["b"]


def dropout(x, key):
    return jnp.where(jax.random.bernoulli(key, 1 - DROPOUT, x.shape), x / (1 - DROPOUT), 0)


def attention(x, layer, seen, key):
    """x [B,S,E], seen [B,1,1,S]"""
    def heads(p):
        y = linear(x, p)
        return y.reshape(*y.shape[:2], -1, HEAD_WIDTH).transpose(0, 2, 1, 3)

    q, k, v = heads(layer["q"]), heads(layer["k"]), heads(layer["v"])
    scores = jnp.where(seen, q @ k.swapaxes(2, 3) / HEAD_WIDTH**0.5, -jnp.inf)
    mixed = dropout(jax.nn.softmax(scores), key) @ v
    return linear(mixed.transpose(0, 2, 1, 3).reshape(x.shape), layer["out"])


def loss_of(params, batch, key):
    ids, lengths, labels = batch
    keys = iter(jax.random.split(key, 3 * len(params["layers"]) + 2))
    seen = (jnp.arange(ids.shape[1]) < lengths[:, None])[:, None, None, :]
    x = params["words"][ids] + params["positions"][: ids.shape[1]] + params["types"][0]
    x = dropout(normalise(x, params["norm"]), next(keys))
    for layer in params["layers"]:
        x = normalise(x + dropout(attention(x, layer, seen, next(keys)), next(keys)), layer["norm1"])
        inner = jax.nn.gelu(linear(x, layer["up"]), approximate=False)
        x = normalise(x + dropout(linear(inner, layer["down"]), next(keys)), layer["norm2"])
    logits = linear(dropout(jnp.tanh(linear(x[:, 0], params["pooler"])), next(keys)), params["classifier"])
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


@functools.partial(jax.jit, donate_argnums=0)
def step(state, batch):
    params, means, squares, key, count = state
    key, own = jax.random.split(key)
    loss, grads = jax.value_and_grad(loss_of)(params, batch, own)
    count = count + 1
    means = jax.tree.map(lambda m, g: m + (1 - BETA1) * (g - m), means, grads)
    squares = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, squares, grads)
    rate, root = LR / (1 - BETA1**count), (1 - BETA2**count) ** -0.5
    params = jax.tree.map(lambda p, m, v: p * (1 - LR * DECAY) - rate * m / (jnp.sqrt(v) * root + ADAM_EPSILON), params, means, squares)
    return (params, means, squares, key, count), loss


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("layers", 12), ("width", 768), ("batch", 8), ("length", 128), ("steps", 10)):
        parser.add_argument("--" + name, type=int, default=default)
    args = parser.parse_args()
    key = jax.random.key(1)
    params = initial(key, args)
    zeros = functools.partial(jax.tree.map, jnp.zeros_like)
    state = (params, zeros(params), zeros(params), key, jnp.float32(0))
    batch = (jax.random.randint(key, (args.batch, args.length), 1000, 30000), jnp.full(args.batch, args.length),
             jax.random.randint(key, (args.batch,), 0, LABELS))
    jax.block_until_ready((state, batch))
    warm, best = 0.0, float("inf")
    for i in range(WARM_UP + args.steps):
        began = time.perf_counter()
        state, loss = step(state, batch)
        loss = float(loss)
        jax.block_until_ready(state)
        took = time.perf_counter() - began
        if i < WARM_UP:
            warm += took
        else:
            best = min(best, took)
    print(f"{1e3 * best:.2f} ms a step, compiled in {warm - WARM_UP * best:.2f} s, loss {loss:.3f}")


if __name__ == "__main__":
    main()
