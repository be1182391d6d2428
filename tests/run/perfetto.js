// perfetto.js ENGINE TRACE - let Perfetto read a timeline, and count what it has found.
//
// ENGINE is the folder of its user interface with engine_bundle.js, the web worker that reads traces. Prints one line,
// "SPANS spans in ROWS rows of PROCESSES processes", or what Perfetto complains about, with exit status 1.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [engine, trace] = process.argv.slice(2);
process.on('uncaughtException', (error) => { // Node would print the line of the worker, which is all of it
    console.error(error.message);
    process.exit(1);
});

// ---- the worker, which believes to be in a browser and loads its WebAssembly by XMLHttpRequest ----

class XMLHttpRequest {
    open(method, address) { this.file = path.join(engine, path.basename(address)); }
    send() { this.response = Uint8Array.from(fs.readFileSync(this.file)).buffer; }
}

const quiet = {log() {}, warn() {}, error() {}};
const self = {location: {href: 'file:///'}};
const worker = vm.createContext({self, console: quiet, performance, TextDecoder, URL, WorkerGlobalScope: Object, XMLHttpRequest});
vm.runInContext(fs.readFileSync(path.join(engine, 'engine_bundle.js'), 'utf8'), worker);
const WorkerBytes = vm.runInContext('Uint8Array', worker);
const replies = [];
const port = {postMessage: (reply) => replies.push(Buffer.from(reply))};
self.onmessage({data: port});

// ---- its messages: protocol buffers, as in trace_processor.proto ----

const APPEND = 1, FINALIZE = 2, QUERY = 3; // methods
const SEQUENCE = 1, REQUEST = 2, FATAL_ERROR = 5, TRACE_DATA = 101, QUERY_ARGS = 103, APPEND_RESULT = 201, QUERY_RESULT = 203;

function number(value)
{
    const bytes = [];
    for (; value > 127; value = Math.floor(value / 128)) bytes.push(value % 128 + 128);
    return Buffer.from([...bytes, value]);
}

const integer = (field, value) => Buffer.concat([number(field * 8), number(value)]);
const bytes = (field, value) => Buffer.concat([number(field * 8 + 2), number(value.length), Buffer.from(value)]);

// The fields of a message that are messages, texts or bytes, as [field, bytes]; integers are left out.
function fields(message)
{
    const found = [];
    let at = 0;
    const next = () => {
        let value = 0;
        for (let unit = 1;; unit *= 128) {
            value += message[at] % 128 * unit;
            if (message[at++] < 128) return value;
        }
    };
    while (at < message.length) {
        const key = next(), size = next();
        if (key % 8 !== 2) continue;
        found.push([Math.floor(key / 8), message.subarray(at, at + size)]);
        at += size;
    }
    return found;
}

const get = (message, field) => fields(message).find((f) => f[0] === field)?.[1];
let sequence = 0;

// The result of a call. A complaint of Perfetto is an error.
function call(method, args, result)
{
    const request = Buffer.concat([integer(SEQUENCE, sequence++), integer(REQUEST, method), args]);
    replies.length = 0;
    port.onmessage({data: new WorkerBytes(bytes(1, request))});
    const reply = get(Buffer.concat(replies), 1);
    const answer = get(reply, result);
    const complaint = get(reply, FATAL_ERROR) ?? (answer && get(answer, 2));
    if (complaint) throw new Error(complaint.toString());
    return answer;
}

// The text that a query yields, in one row of one column; '' where that is NULL.
function query(sql)
{
    const batch = get(call(QUERY, bytes(QUERY_ARGS, bytes(1, sql)), QUERY_RESULT), 3);
    return get(batch, 5)?.toString().replace('\0', '') ?? '';
}

setImmediate(() => { // the worker is ready
    call(APPEND, bytes(TRACE_DATA, fs.readFileSync(trace)), APPEND_RESULT);
    call(FINALIZE, Buffer.alloc(0), 0);
    const complaints = query(`select group_concat(name || ' ' || value, ', ') from stats
                              where severity in ('error', 'data_loss') and value > 0`);
    if (complaints) throw new Error(complaints);
    console.log(query(`select count(*) || ' spans in ' || count(distinct track_id) || ' rows of '
                       || (select count(*) from process where name like 'rank % on %') || ' processes' from slice`));
});
