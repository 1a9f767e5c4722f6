// Asks a server with @grpc/grpc-js. Arguments: the address, and a protocol to ask by: a folder that
// holds our published .proto files, or a file with somebody else's as a set of descriptors.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [address, protocol] = process.argv.slice(2);
const options = { keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true };
const isDescriptors = protocol.endsWith(".bin");
const definition = isDescriptors
  ? loader.loadFileDescriptorSetFromBuffer(fs.readFileSync(protocol), options)
  : loader.loadSync("foretell/protos/inference/inference.proto", {
      ...options,
      includeDirs: [protocol],
    });
const { inference } = grpc.loadPackageDefinition(definition);
const client = new inference.GRPCInferenceService(address, grpc.credentials.createInsecure());

function call(method, request) {
  return new Promise((resolve, reject) => {
    const deadline = Date.now() + 60_000;
    client[method](request, { deadline }, (error, answer) =>
      error ? reject(error) : resolve(answer),
    );
  });
}

function refused(method, request, code, words) {
  return assert.rejects(call(method, request), (error) => {
    assert.equal(error.code, grpc.status[code], error.message);
    assert.ok(error.details.includes(words), error.details);
    return true;
  });
}

/** Parameters; a set of descriptors has its maps as lists, which are the same on the wire. */
function map(parameters) {
  return isDescriptors
    ? Object.entries(parameters).map(([key, value]) => ({ key, value }))
    : parameters;
}

/** Numbers as the raw bytes of a tensor. */
function raw(numbers) {
  return Buffer.from(Float64Array.from(numbers).buffer);
}

/** Texts as the raw bytes of a tensor: each behind its length. */
function rawTexts(texts) {
  return Buffer.concat(
    texts.flatMap((text) => {
      const content = Buffer.from(text);
      const length = Buffer.alloc(4);
      length.writeUInt32LE(content.length);
      return [length, content];
    }),
  );
}

/** The texts or numbers of an output that came as raw bytes. */
function read(answer, name) {
  const at = answer.outputs.findIndex((output) => output.name === name);
  const content = answer.raw_output_contents[at];
  if (answer.outputs[at].datatype === "FP64") {
    return Array.from({ length: content.length / 8 }, (_, i) => content.readDoubleLE(8 * i));
  }
  const texts = [];
  for (let from = 0; from < content.length; ) {
    const to = from + 4 + content.readUInt32LE(from);
    texts.push(content.subarray(from + 4, to).toString());
    from = to;
  }
  return texts;
}

function sentence(text, id = "", parameters = {}) {
  return {
    model_name: "ende",
    id,
    parameters: map(parameters),
    inputs: [{ name: "sentences", datatype: "BYTES", shape: [1] }],
    raw_input_contents: [rawTexts([text])],
  };
}

async function look() {
  assert.equal((await call("ServerLive", {})).live, true);
  assert.equal((await call("ServerReady", {})).ready, true);
  assert.equal((await call("ModelReady", { name: "nope" })).ready, false);
  const metadata = await call("ModelMetadata", { name: "demand" });
  assert.deepEqual(metadata.inputs, [{ name: "context", datatype: "FP64", shape: [-1, -1] }]);
  const { config } = await call("ModelConfig", { name: "ende" });
  assert.equal(config.input[0].data_type, "TYPE_STRING");
}

async function askRaw() {
  const answer = await call("ModelInfer", {
    model_name: "demand",
    id: "7",
    parameters: map({ horizon: { int64_param: 2 }, quantile_levels: { string_param: "0.1,0.9" } }),
    inputs: [{ name: "context", datatype: "FP64", shape: [2, 3] }],
    outputs: [{ name: "quantiles" }, { name: "forecast" }],
    raw_input_contents: [raw([NaN, 1, 2, 5, 6, 7])],
  });
  assert.equal(answer.id, "7");
  assert.deepEqual(answer.outputs.map((output) => output.name), ["quantiles", "forecast"]);
  assert.deepEqual(answer.outputs[0].shape, [2, 2, 2]);
  assert.deepEqual(read(answer, "forecast"), [2, 2, 7, 7]);
  assert.deepEqual(read(await call("ModelInfer", sentence("zwölf one")), "translations"), [
    "flöwz eno",
  ]);
}

async function askTyped() {
  const answer = await call("ModelInfer", {
    model_name: "demand",
    parameters: map({ horizon: { int64_param: 2 }, binary_data_output: { bool_param: false } }),
    inputs: [
      {
        name: "context",
        datatype: "FP64",
        shape: [1, 3],
        contents: { fp64_contents: [1, 2, 3] },
      },
    ],
    outputs: [{ name: "forecast" }],
  });
  assert.deepEqual(answer.outputs[0].contents.fp64_contents, [3, 3]);
  assert.equal(answer.raw_output_contents.length, 0);
}

async function err() {
  await refused("ModelInfer", { model_name: "nope" }, "NOT_FOUND", "Request for unknown model");
  const bad = sentence("a", "", { beam: { int64_param: 1 } });
  await refused("ModelInfer", bad, "INVALID_ARGUMENT", "'beam' is not known");
  await refused("RepositoryModelLoad", { model_name: "ende" }, "FAILED_PRECONDITION", "allowed");
}

/** Good, bad and in parts on one stream; answers come as they are ready. */
function stream() {
  return new Promise((resolve, reject) => {
    const found = { a: [], c: [] };
    const errors = [];
    const call = client.ModelStreamInfer();
    call.on("data", ({ error_message, infer_response }) => {
      if (error_message) errors.push(error_message);
      else found[infer_response.id].push(infer_response);
    });
    call.on("error", reject);
    call.on("end", () => resolve({ found, errors }));
    call.write(sentence("one two", "a"));
    call.write(sentence("one two", "b", { beam: { int64_param: 1 } }));
    call.write(sentence("one two", "c", { stream: { bool_param: true } }));
    call.end();
  });
}

async function main() {
  await look();
  await askRaw();
  await askTyped();
  await err();
  const { found, errors } = await stream();
  assert.deepEqual(found.a.map((answer) => read(answer, "translations")), [["eno owt"]]);
  assert.equal(errors.length, 1);
  assert.ok(errors[0].startsWith("[request id: b]"), errors[0]);
  const parts = found.c.slice(0, -1).flatMap((answer) => read(answer, "text"));
  assert.equal(parts.join(""), "eno owt");
  assert.deepEqual(read(found.c.at(-1), "translations"), ["eno owt"]);
  client.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
