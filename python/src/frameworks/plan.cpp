// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/answer.hpp>

#include "frameworks/frameworks.hpp"

namespace rankmesh::python {
namespace {

using detail::cat;

/// `{"tp": 8}` as `tp=8`.
std::vector<std::string> settings_of(nb::handle values, const char* what) {
    auto all = std::vector<std::string>{};
    if (values.is_none()) return all;
    if (!nb::hasattr(values, "keys"))
        throw TypeFault(cat(what, " is ", described(values), "; it must be a mapping such as {'tp': 8}"));
    const auto plain = nb::cast<nb::dict>(nb::module_::import_("builtins").attr("dict")(values));
    for (const auto& [name, value] : plain)
        all.push_back(cat(text_of(name, "the name of a setting"), "=",
                          text_of(nb::str(value), "the value of a setting")));
    return all;
}

nb::object planned(nb::handle model, nb::handle on, nb::handle device, nb::handle devices, nb::handle batch,
                   nb::handle seq, nb::handle precision, nb::handle fix, nb::handle max, nb::handle as,
                   nb::handle measured, nb::handle explain, nb::handle devices_file, nb::handle count,
                   bool serve, nb::handle weights, nb::handle compute, nb::handle kv) {
    auto question = plan::Question{};
    question.model = text_of(model, "the model");
    question.serve = serve;
    question.on = Cluster::parse(text_of(on, "the machines"));
    question.device = text_of(device, "the device");
    if (!devices.is_none()) question.devices = int_of(devices, "the number of devices");
    if (!batch.is_none()) question.batch = int_of(batch, "the batch");
    if (!seq.is_none()) question.sequence = int_of(seq, "the tokens of a sequence");
    if (!precision.is_none()) question.precision = text_of(precision, "the precision");
    for (const auto& [value, text] :
         {std::pair{weights, &question.weights}, {compute, &question.compute}, {kv, &question.kv}})
        if (!value.is_none()) *text = text_of(value, "the type of numbers");
    question.fix = settings_of(fix, "fix");
    question.most = settings_of(max, "max");
    if (!as.is_none()) question.as = text_of(as, "the framework of as_");
    if (!measured.is_none()) question.measured = path_of(measured, "the file of measured steps");
    if (!explain.is_none()) question.explain = text_of(explain, "the layout to explain");
    if (!devices_file.is_none()) question.devices_file = path_of(devices_file, "the file of devices");
    const auto most = int_of(count, "the count of layouts");
    if (most < 1) throw UsageError(cat("the count of layouts is ", most, "; it must be 1 or more"));
    question.count = static_cast<std::size_t>(most);
    return nb::module_::import_("json").attr("loads")(nb::cast(plan::to_json(plan::answer(question))));
}

}  // namespace

void bind_plan(nb::module_& m) {
    function<1>(
        m,
        "def plan(model: str, *, on: str, device: str, devices: int | None = None, batch: int | None = None, "
        "seq: int | None = None, precision: str | None = None, fix: collections.abc.Mapping[str, int | str] "
        "| None = None, max: collections.abc.Mapping[str, int | str] | None = None, as_: str | None = None, "
        "measured: str | None = None, explain: str | None = None, devices_file: str | None = None, count: "
        "int = 10, serve: bool = False, weights: str | None = None, compute: str | None = None, kv: str | "
        "None = None) -> dict[str, typing.Any]",
        "Finds the fastest layouts of a training job that fit, and explains them. Returns the output of "
        "`rankmesh plan --json`. `model`: a name, a file or a line of sizes; `on`: the cluster; `serve`: "
        "plan an inference engine instead, as `--serve` does. Raises UsageError if an argument is missing "
        "or impossible.",
        &planned);
}

}  // namespace rankmesh::python
