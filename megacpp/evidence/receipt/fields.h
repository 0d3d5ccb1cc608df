// SPDX-License-Identifier: Apache-2.0
// The members of a receipt as JSON has them, each with its name and documentation: the one list that the writer, the
// reader and the JSON Schema are made of (base/record.h). For .cpp files.
#pragma once

#include "megacpp/core/base/record.h"
#include "megacpp/evidence/receipt/answers.h"
#include "megacpp/evidence/receipt/receipt.h"
#include "megacpp/hardware/catalog/oom_report_fields.h"

namespace megacpp::receipt {

template <typename Visit, base::Is<Failure> Self>
void visit_fields(const Visit& visit, Self& failure) {
  visit("code", failure.code, "of docs/errors.md");
  visit("where", failure.where);
  visit("got", failure.got);
  visit("wanted", failure.wanted);
  visit("next", failure.next);
  visit("oom_class", failure.oom_class, "of memory that ran out; empty for other errors");
  visit("phase", failure.phase, "what was being done when memory ran out");
  visit("chip", failure.chip, "whose memory ran out");
  visit("step", failure.step, "in which memory ran out, from 0; null before step 0");
  visit("wanted_bytes", failure.wanted_bytes);
  visit("limit_bytes", failure.limit_bytes);
  visit("injected", failure.is_injected, "the recipe had asked for it");
}

template <typename Visit, base::Is<Ending> Self>
void visit_fields(const Visit& visit, Self& ending) {
  visit("kind", ending.kind, "how the run ended");
  visit("started_at", ending.started_at, "UTC");
  visit("ended_at", ending.ended_at, "UTC; empty: it goes on, or nobody saw it end");
  visit("first_step", ending.first_step, "steps done before, by the run it goes on with");
  visit("steps", ending.steps, "done in all; of a killed run, as far as they were logged");
  visit("requested_steps", ending.requested_steps);
  visit("failure", ending.failure, "the error that ended it");
}

template <typename Visit, base::Is<Hardware> Self>
void visit_fields(const Visit& visit, Self& hardware) {
  visit("name", hardware.name, "with the limits and faults of the recipe");
  visit("topology", hardware.topology, "the slice");
  visit("chips", hardware.chips);
  visit("mesh", hardware.mesh, "axes and their sizes; empty: one chip");
  visit("processor", hardware.processor, "of virtual chips");
  visit("threads", hardware.threads, "of each virtual chip");
  visit("chip", hardware.chip, "what each chip is");
}

template <typename Visit, base::Is<Model> Self>
void visit_fields(const Visit& visit, Self& model) {
  visit("name", model.name);
  visit("family", model.family, "dense, sparse (experts) or hybrid (Mamba-2 or recurrent blocks)");
  visit("pattern", model.pattern, "a letter a block");
  visit("depth", model.depth, "blocks");
  visit("hidden", model.hidden);
  visit("vocab", model.vocab);
  visit("parameters", model.parameters);
  visit("hash", model.hash, "of the whole model section of the recipe");
}

template <typename Visit, base::Is<BatchShape> Self>
void visit_fields(const Visit& visit, Self& batch) {
  visit("batch", batch.batch, "sequences of a micro-step, all chips together");
  visit("sequence", batch.sequence, "tokens");
  visit("micro_steps", batch.micro_steps, "of a step");
  visit("tokens", batch.tokens, "of a step");
  visit("data", batch.data, "what is trained on");
}

template <typename Visit, base::Is<Program> Self>
void visit_fields(const Visit& visit, Self& program) {
  visit("backend", program.backend);
  visit("lane", program.lane, "hardware, backend, who places the collectives, and loops where lanes differ by them");
  visit("path", program.path, "what ran the programs, in its own words");
  visit("precision", program.precision);
  visit("layout", program.layout, "degrees and policy");
  visit("recompute", program.recompute, "level by letter");
  visit("optimizer", program.optimizer);
  visit("overlap", program.overlap, "how collectives run beside work");
  visit("buckets", program.buckets, "which collectives travel together");
  visit("features", program.features, "of the model and the backend");
  visit("flags", program.flags, "of a plugin");
  visit("without", program.without, "passes of the compiler that were left out");
  visit("watched", program.watched, "what looked into its steps: profile, trace, check-nans");
}

template <typename Visit, base::Is<Versions> Self>
void visit_fields(const Visit& visit, Self& versions) {
  visit("code", versions.code, "version and content of the sources");
  visit("platform", versions.platform, "plugin and driver; empty: the backend is part of the code");
}

template <typename Visit, base::Is<Header> Self>
void visit_fields(const Visit& visit, Self& header) {
  visit("hardware", header.hardware);
  visit("model", header.model);
  visit("batch", header.batch);
  visit("program", header.program);
  visit("versions", header.versions);
}

template <typename Visit, base::Is<LineageItem> Self>
void visit_fields(const Visit& visit, Self& item) {
  visit("name", item.name);
  visit("documented", item.documented, "in the lock file; empty: not there");
  visit("live", item.live, "as found; empty: not found");
  visit("state", item.state, "ok, drift or missing");
}

template <typename Visit, base::Is<Lineage> Self>
void visit_fields(const Visit& visit, Self& lineage) {
  visit("lock_file", lineage.lock_file, "what documents the environment; empty: nothing does");
  visit("unread", lineage.unread, "why nothing could be compared with it; empty: it was");
  visit("items", lineage.items, "what launches ask for");
}

template <typename Visit, base::Is<Phase> Self>
void visit_fields(const Visit& visit, Self& phase) {
  visit("first_step", phase.first_step, "from 0");
  visit("steps", phase.steps);
  visit("tokens", phase.tokens);
  visit("seconds", phase.seconds, "without saving checkpoints");
}

template <typename Visit, base::Is<StepSamples> Self>
void visit_fields(const Visit& visit, Self& samples) {
  visit("first_step", samples.first_step);
  visit("steps_each", samples.steps_each, "steps behind each sample");
  visit("seconds", samples.seconds, "of a step, mean over the steps of each sample, in order");
}

template <typename Visit, base::Is<Spread> Self>
void visit_fields(const Visit& visit, Self& spread) {
  visit("mean", spread.mean, "seconds, as the others");
  visit("deviation", spread.deviation, "standard, of one sample");
  visit("least", spread.least);
  visit("lower_quartile", spread.lower_quartile);
  visit("median", spread.median);
  visit("upper_quartile", spread.upper_quartile);
  visit("most", spread.most);
}

template <typename Visit, base::Is<Parts> Self>
void visit_fields(const Visit& visit, Self& parts) {
  visit("arithmetic", parts.arithmetic, "seconds of a step, as the others");
  visit("memory", parts.memory);
  visit("links", parts.links, "collectives, waiting included");
  visit("bubble", parts.bubble, "waiting for other stages of a pipeline");
  visit("other", parts.other, "of the steady step, in none of these");
}

template <typename Visit, base::Is<StartPart> Self>
void visit_fields(const Visit& visit, Self& part) {
  visit("name", part.name);
  visit("seconds", part.seconds);
  visit("note", part.note, "how much of it came from where; may be empty");
}

template <typename Visit, base::Is<Times> Self>
void visit_fields(const Visit& visit, Self& times) {
  visit("compile_seconds", times.compile_seconds, "our own passes");
  visit("verify_seconds", times.verify_seconds, "of what they left");
  visit("backend_compile_seconds", times.backend_compile_seconds, "a plugin's compiler, or the preparation of kernels");
  visit("compile", times.compile, "cold, cached or own passes alone; empty: not known");
  visit("load_seconds", times.load_seconds, "from the plan to weights in place, compiling included");
  visit("start", times.start, "parts of the time from the command to the first step; empty: not known");
  visit("first", times.first, "the first step, with those up to its log");
  visit("warm_up", times.warm_up);
  visit("steady", times.steady, "what comparisons and MFU are made of");
  visit("samples", times.samples, "of the steady window");
  visit("spread", times.spread, "of the samples");
  visit("parts", times.parts, "means since the first step");
  visit("predicted_step_seconds", times.predicted_step_seconds);
  visit("saving_seconds", times.saving_seconds, "that steps waited for checkpoints, in no phase");
  visit("data_stalls", times.data_stalls, "waits for data in the steady window");
}

template <typename Visit, base::Is<Mfu> Self>
void visit_fields(const Visit& visit, Self& mfu) {
  visit("value", mfu.value, "of the steady window");
  visit("model_flops", mfu.model_flops, "of a step");
  visit("peak_flops", mfu.peak_flops, "of a chip, per second");
  visit("peak", mfu.peak, "which rate, and where it is from; why there is none");
  visit("formula", mfu.formula);
}

template <typename Visit, base::Is<Regime> Self>
void visit_fields(const Visit& visit, Self& regime) {
  visit("name", regime.name, "what bounds a step");
  visit("because", regime.because);
}

template <typename Visit, base::Is<Losses> Self>
void visit_fields(const Visit& visit, Self& losses) {
  visit("first", losses.first);
  visit("last", losses.last);
}

template <typename Visit, base::Is<Count> Self>
void visit_fields(const Visit& visit, Self& count) {
  visit("what", count.what);
  visit("count", count.count);
}

template <typename Visit, base::Is<Transfer> Self>
void visit_fields(const Visit& visit, Self& transfer) {
  visit("count", transfer.count);
  visit("bytes", transfer.bytes);
}

template <typename Visit, base::Is<DeviceCounters> Self>
void visit_fields(const Visit& visit, Self& counters) {
  visit("compiles", counters.compiles, "by cause");
  visit("cache_hits", counters.cache_hits, "programs that were compiled before");
  visit("executions", counters.executions, "of programs");
  visit("host_syncs", counters.host_syncs, "times the host waited for a device");
  visit("host_to_device", counters.host_to_device);
  visit("device_to_host", counters.device_to_host);
}

template <typename Visit, base::Is<SteadyCounters> Self>
void visit_fields(const Visit& visit, Self& counters) {
  visit("programs_made", counters.programs_made, "compiled, or taken from a cache");
  visit("host_syncs", counters.host_syncs, "beside those that fetch metrics, save, or are the path's own");
}

template <typename Visit, base::Is<Fallback> Self>
void visit_fields(const Visit& visit, Self& fallback) {
  visit("op", fallback.op);
  visit("reason", fallback.reason);
  visit("count", fallback.count, "nodes that run so");
}

template <typename Visit, base::Is<Counters> Self>
void visit_fields(const Visit& visit, Self& counters) {
  visit("devices", counters.devices, "of the whole run");
  visit("steady", counters.steady, "what should be 0 in the steady window");
  visit("fallbacks", counters.fallbacks, "composites that run as their parts");
  visit("throttled", counters.throttled, "times that a core was slowed down since step 0");
}

template <typename Visit, base::Is<MemoryItem> Self>
void visit_fields(const Visit& visit, Self& item) {
  visit("role", item.role);
  visit("family", item.family, "letter of the block; empty: outside blocks");
  visit("bytes", item.bytes, "at the peak");
}

template <typename Visit, base::Is<ChipGroup> Self>
void visit_fields(const Visit& visit, Self& group) {
  visit("chip", group.chip, "the first of them");
  visit("chips", group.chips, "alike");
  visit("place", group.place);
  visit("planned_bytes", group.planned_bytes, "at the peak");
  visit("needed_bytes", group.needed_bytes, "as the catalog corrects it, with the program's code");
  visit("state_bytes", group.state_bytes, "what stays from step to step");
  visit("limit_bytes", group.limit_bytes);
  visit("items", group.items, "by role and family, padding left out");
}

template <typename Visit, base::Is<ChipPeak> Self>
void visit_fields(const Visit& visit, Self& chip) {
  visit("chip", chip.chip);
  visit("place", chip.place);
  visit("planned_bytes", chip.planned_bytes);
  visit("measured_bytes", chip.measured_bytes);
  visit("limit_bytes", chip.limit_bytes);
  visit("planned_host_bytes", chip.planned_host_bytes, "in pinned memory of its host; 0: nothing is kept there");
  visit("measured_host_bytes", chip.measured_host_bytes);
}

template <typename Visit, base::Is<FamilyMemory> Self>
void visit_fields(const Visit& visit, Self& memory) {
  visit("family", memory.family, "letter of the block; empty: outside blocks");
  visit("bytes", memory.bytes, "by part of the step, in order; of each part where most bytes are alive");
}

template <typename Visit, base::Is<HostBytes> Self>
void visit_fields(const Visit& visit, Self& host) {
  visit("offloaded_bytes", host.offloaded_bytes, "in pinned memory");
  visit("snapshot_bytes", host.snapshot_bytes, "that checkpoints are written from");
  visit("limit_bytes", host.limit_bytes, "that it had free for both");
}

template <typename Visit, base::Is<Memory> Self>
void visit_fields(const Visit& visit, Self& memory) {
  visit("planned", memory.planned, "chips that are planned alike, least free bytes first");
  visit("host", memory.host, "planned beside the chips, of the host that needs most; 0 where chips are in its memory");
  visit("along_step", memory.along_step,
        "planned bytes of the first of these from the first node of a step to the last");
  visit("measured", memory.measured, "each chip of this process");
}

template <typename Visit, base::Is<Collective> Self>
void visit_fields(const Visit& visit, Self& collective) {
  visit("stage", collective.stage, "of the pipeline");
  visit("axes", collective.axes);
  visit("kind", collective.kind);
  visit("calls", collective.calls, "of a chip in a step");
  visit("bytes", collective.bytes, "that it sends in a step");
}

template <typename Visit, base::Is<ExpertLoad> Self>
void visit_fields(const Visit& visit, Self& load) {
  visit("block", load.block);
  visit("share", load.share, "of the block's requests, by expert");
  visit("imbalance", load.imbalance, "the busiest expert over the mean");
  visit("dropped", load.dropped, "requests beyond capacity");
}

template <typename Visit, base::Is<Ladder> Self>
void visit_fields(const Visit& visit, Self& ladder) {
  visit("rung", ladder.rung, "it ran at; 0: as requested");
  visit("changes", ladder.changes, "what the ladder set");
  visit("changes_experiment", ladder.changes_experiment, "losses are another experiment's");
  visit("tried", ladder.tried, "every reduction, with its outcome");
}

template <typename Visit, base::Is<Reason> Self>
void visit_fields(const Visit& visit, Self& reason) {
  visit("name", reason.name);
  visit("sentence", reason.sentence);
}

template <typename Visit, base::Is<Verdict> Self>
void visit_fields(const Visit& visit, Self& verdict) {
  visit("reasons", verdict.reasons, "why the run may not be compared; none: it may");
}

template <typename Visit, base::Is<Answers> Self>
void visit_fields(const Visit& visit, Self& answers) {
  for (const Question& question : five_questions()) visit(question.name, answers.*question.answer, question.text);
}

template <typename Visit, base::Is<Receipt> Self>
void visit_fields(const Visit& visit, Self& receipt) {
  visit("schema", receipt.schema, "version of this schema");
  visit("run", receipt.run, "name of the run directory");
  visit("ending", receipt.ending);
  visit("answers", receipt.answers, "five questions, in words");
  visit("verdict", receipt.verdict);
  visit("header", receipt.header, "what ran: two runs that differ in one thing here measure that thing");
  visit("recipe", receipt.recipe, "as YAML, every key; auto where planning chose, which the header resolves");
  visit("lineage", receipt.lineage, "the documented against the live environment");
  visit("times", receipt.times);
  visit("mfu", receipt.mfu);
  visit("regime", receipt.regime);
  visit("losses", receipt.losses);
  visit("repeats", receipt.repeats, "what another run must have in common to compute the same bits; empty: not known");
  visit("counters", receipt.counters);
  visit("memory", receipt.memory);
  visit("collectives", receipt.collectives, "of a chip in one step; null: the backend's compiler places them");
  visit("experts", receipt.experts, "over the logged steps of the steady window");
  visit("ladder", receipt.ladder);
}

}  // namespace megacpp::receipt
