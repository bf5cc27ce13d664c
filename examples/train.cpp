// SPDX-License-Identifier: Apache-2.0
// Trains a small transformer over pipeline, data, context and tensor parallelism, and again on one rank: the
// losses are the same.
//
//     train "pp=2 dp=2 cp=1 tp=2" 20     as eight threads, or as eight processes under mpirun, srun or
//     torchrun
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include <Eigen/Dense>

#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/engine/world.hpp>

using Eigen::Index;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using rankmesh::Communicator;

namespace {

constexpr Index layers = 4, hidden = 16, heads = 4, wide = 32, words = 24;
constexpr Index batch = 8, tokens = 16;  // sequences in a step, and their length
constexpr double epsilon = 1e-6;

std::span<double> buffer(Matrix& matrix) { return {matrix.data(), static_cast<std::size_t>(matrix.size())}; }

/// The same pseudo-random number in [0, 1) on every rank, whatever part of the whole it holds.
double random(std::uint64_t what, Index row, Index column) {
    auto x = (what << 40) + (static_cast<std::uint64_t>(row) << 20) + static_cast<std::uint64_t>(column);
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53;
}
Index word(Index sequence, Index position) {
    return static_cast<Index>(random(0, sequence, position) * static_cast<double>(words));
}

/// Rows divided by their root mean square, and the gradient of that.
Matrix norm(const Matrix& x) {
    return (x.array().colwise() / (x.array().square().rowwise().mean() + epsilon).sqrt()).matrix();
}
Matrix norm_gradient(const Matrix& x, const Matrix& of_norm) {
    const Eigen::ArrayXd scale = (x.array().square().rowwise().mean() + epsilon).rsqrt();
    const Eigen::ArrayXd along = (x.array() * of_norm.array()).rowwise().mean() * scale.cube();
    return (of_norm.array().colwise() * scale - x.array().colwise() * along).matrix();
}

/// This process's place, with its communicators: all of one plan.
struct Place {
    explicit Place(const rankmesh::Member& me)
        : pp(me.on("pp")),
          cp(me.on("cp")),
          tp(me.on("tp")),
          replicas(me.on("dp", "cp")),
          dp_rank(me.at("dp")),
          dp_size(me.mesh().size("dp")) {}
    Communicator pp, cp, tp, replicas;  // replicas hold the same weights
    int dp_rank, dp_size;
};

/// A part of a weight matrix and of its gradient, in the flat arrays of its stage.
struct Weight {
    Eigen::Map<Matrix> value, gradient;
};

/// The weights of this rank's layers, with Adam's moments for its share of them alone (ZeRO-1).
class Weights {
public:
    Weights(std::size_t count, const Communicator& replicas) {
        const auto n = static_cast<std::size_t>(replicas.size());
        share_ = (count + n - 1) / n;
        first_ = share_ * static_cast<std::size_t>(replicas.rank());
        values_.assign(share_ * n, 0.0);
        gradients_ = values_;
        sums_ = mean_ = square_ = std::vector(share_, 0.0);
    }

    /// The rows and columns from (`row`, `column`) of matrix number `what`.
    Weight take(std::uint64_t what, Index rows, Index columns, Index row = 0, Index column = 0) {
        auto weight = Weight{{&values_[taken_], rows, columns}, {&gradients_[taken_], rows, columns}};
        taken_ += static_cast<std::size_t>(rows * columns);
        for (Index i = 0; i < rows; ++i)
            for (Index j = 0; j < columns; ++j)
                weight.value(i, j) = (random(what, row + i, column + j) - 0.5) * 0.5;
        return weight;
    }

    /// One step of Adam: each replica sums and applies its share of the gradients, and all gather the
    /// weights.
    void step(Communicator& replicas, int number) {
        replicas.reduce_scatter(gradients_, sums_);
        for (std::size_t i = 0; i < share_; ++i) {
            mean_[i] += 0.1 * (sums_[i] - mean_[i]);
            square_[i] += 0.001 * (sums_[i] * sums_[i] - square_[i]);
            const auto mean = mean_[i] / (1 - std::pow(0.9, number));
            const auto square = square_[i] / (1 - std::pow(0.999, number));
            values_[first_ + i] -= 0.003 * mean / (std::sqrt(square) + 1e-8);
        }
        replicas.all_gather(values_);
        std::ranges::fill(gradients_, 0.0);
    }

private:
    std::size_t share_, first_, taken_ = 0;
    std::vector<double> values_, gradients_, sums_, mean_, square_;
};

/// A transformer layer: its heads and the columns between its two matrices are dealt out along tp, the tokens
/// along cp.
class Layer {
public:
    Layer(Weights& weights, std::uint64_t number, Place& at) : at_(at) {
        const auto part = hidden / at.tp.size(), columns = wide / at.tp.size();
        const auto first = part * at.tp.rank(), first_column = columns * at.tp.rank();
        for (std::uint64_t i = 0; i < 3; ++i)
            in_.push_back(weights.take(8 * number + i, hidden, part, 0, first));
        for (const auto& [what, rows, from] :
             {std::tuple(3, part, first), std::tuple(4, columns, first_column)})
            out_.push_back(weights.take(8 * number + static_cast<std::uint64_t>(what), rows, hidden, from));
        up_.push_back(weights.take(8 * number + 5, hidden, columns, 0, first_column));
    }

    /// What the backward pass needs of a forward pass.
    struct Trace {
        Matrix x, nx, q, k, v, attended, y, ny, active;
        std::vector<Matrix> shares;  // by head: the attention that each token pays to each
    };

    Matrix forward(const Matrix& x, Trace& trace) {
        auto& [x_, nx, q, k, v, attended, y, ny, active, shares] = trace;
        x_ = x;
        nx = norm(x);
        q = nx * in_[0].value;
        k = gathered(nx * in_[1].value);
        v = gathered(nx * in_[2].value);
        attended.resize(q.rows(), q.cols());
        for (Index head = 0; head < q.cols(); head += width) {
            Matrix scores =
                q.middleCols(head, width) * k.middleCols(head, width).transpose() / std::sqrt(width);
            const auto first = at_.cp.rank() * q.rows();  // of this rank's tokens in the sequence
            for (Index i = 0; i < scores.rows(); ++i) {
                const auto seen = first + i + 1;
                auto row = scores.row(i);
                row.head(seen) = (row.head(seen).array() - row.head(seen).maxCoeff()).exp();
                row.tail(scores.cols() - seen).setZero();
                row /= row.sum();
            }
            attended.middleCols(head, width) = scores * v.middleCols(head, width);
            shares.push_back(std::move(scores));
        }
        y = x + summed(attended * out_[0].value);
        ny = norm(y);
        active = (ny * up_[0].value).array().tanh();
        return y + summed(active * out_[1].value);
    }

    Matrix backward(const Matrix& gradient, const Trace& trace) {
        const auto& [x, nx, q, k, v, attended, y, ny, active, shares] = trace;
        out_[1].gradient += active.transpose() * gradient;
        const Matrix of_up = (gradient * out_[1].value.transpose()).array() * (1 - active.array().square());
        up_[0].gradient += ny.transpose() * of_up;
        const Matrix of_y = gradient + norm_gradient(y, summed(of_up * up_[0].value.transpose()));

        out_[0].gradient += attended.transpose() * of_y;
        const Matrix of_attended = of_y * out_[0].value.transpose();
        Matrix of_q(q.rows(), q.cols()), of_k(k.rows(), k.cols()), of_v(v.rows(), v.cols());
        for (Index head = 0; head < q.cols(); head += width) {
            const auto& share = shares[static_cast<std::size_t>(head / width)];
            const auto of = of_attended.middleCols(head, width);
            of_v.middleCols(head, width) = share.transpose() * of;
            Matrix of_scores = of * v.middleCols(head, width).transpose();
            const Eigen::ArrayXd along = (of_scores.array() * share.array()).rowwise().sum();
            of_scores = share.array() * (of_scores.array().colwise() - along) / std::sqrt(width);
            of_q.middleCols(head, width) = of_scores * k.middleCols(head, width);
            of_k.middleCols(head, width) = of_scores.transpose() * q.middleCols(head, width);
        }
        const Matrix of_in[] = {of_q, scattered(of_k), scattered(of_v)};
        Matrix of_nx = Matrix::Zero(x.rows(), hidden);
        for (std::size_t i = 0; i < 3; ++i) {
            in_[i].gradient += nx.transpose() * of_in[i];
            of_nx += of_in[i] * in_[i].value.transpose();
        }
        return of_y + norm_gradient(x, summed(std::move(of_nx)));
    }

private:
    static constexpr Index width = hidden / heads;

    Matrix summed(Matrix part) {
        at_.tp.all_reduce(buffer(part));
        return part;
    }
    /// The rows of all parts of the sequence.
    Matrix gathered(Matrix part) {
        auto whole = Matrix(part.rows() * at_.cp.size(), part.cols());
        at_.cp.all_gather(buffer(part), buffer(whole));
        return whole;
    }
    Matrix scattered(Matrix& whole) {
        auto part = Matrix(whole.rows() / at_.cp.size(), whole.cols());
        at_.cp.reduce_scatter(buffer(whole), buffer(part));
        return part;
    }

    Place& at_;
    std::vector<Weight> in_, out_, up_;  // queries, keys and values; after attention and after `up`; up
};

/// The mean loss of each of `steps` steps.
std::vector<double> train(const rankmesh::Member& me, int steps) {
    auto at = Place(me);
    auto& pp = at.pp;
    const auto stage = pp.rank(), later = pp.size() - 1 - stage;  // stages after this one
    const auto mine = layers / pp.size(), length = tokens / at.cp.size(), first_token = length * at.cp.rank();
    const auto sequences = static_cast<int>(batch) / at.dp_size;
    auto weights = Weights(
        static_cast<std::size_t>(mine * hidden * (4 * hidden + 2 * wide) / at.tp.size() + 2 * words * hidden),
        at.replicas);
    auto embedding = weights.take(1, words, hidden), head = weights.take(2, hidden, words);
    auto layers_here = std::vector<Layer>();
    for (auto i = mine * stage; i < mine * (stage + 1); ++i)
        layers_here.emplace_back(weights, static_cast<std::uint64_t>(i + 1), at);

    struct Flight {  // of one sequence, from its forward pass to its backward pass
        std::vector<Layer::Trace> traces;
        Matrix output;
    };
    auto losses = std::vector<double>();
    for (auto step = 0; step < steps; ++step) {
        const auto first = step * batch + at.dp_rank * sequences;
        auto loss = 0.0;
        auto flights = std::deque<Flight>();
        auto input = Matrix(length, hidden), gradient = input;
        // Once the pipeline is full, a stage computes one sequence forward and one backward in turn: 1F1B.
        for (auto forward = 0, backward = -later; backward <= sequences; ++forward, ++backward) {
            const auto goes = forward < sequences, returns = 0 <= backward && backward < sequences;
            pp.batch([&] {
                if (stage > 0 && goes) pp.recv(buffer(input), stage - 1);
                if (stage > 0 && backward > 0) pp.send(buffer(gradient), stage - 1);
            });
            if (goes) {
                if (stage == 0)
                    for (Index i = 0; i < length; ++i)
                        input.row(i) = embedding.value.row(word(first + forward, first_token + i));
                auto& [traces, x] = flights.emplace_back();
                x = input;
                traces.resize(layers_here.size());
                for (std::size_t i = 0; i < traces.size(); ++i) x = layers_here[i].forward(x, traces[i]);
            }
            auto of_output = Matrix(length, hidden);
            pp.batch([&] {
                if (later > 0 && goes) pp.send(buffer(flights.back().output), stage + 1);
                if (later > 0 && returns) pp.recv(buffer(of_output), stage + 1);
            });
            if (!returns) continue;
            auto& [traces, x] = flights.front();
            if (later == 0) {  // cross entropy with the next word
                const auto nx = norm(x);
                Matrix scores = nx * head.value;
                for (Index i = 0; i < length; ++i) {
                    const auto next = word(first + backward, first_token + i + 1);
                    auto row = scores.row(i);
                    row.array() -= row.maxCoeff();
                    loss += std::log(row.array().exp().sum()) - row(next);
                    row = (row.array().exp() / row.array().exp().sum()).matrix();
                    row(next) -= 1;
                }
                scores /= static_cast<double>(batch * tokens);
                head.gradient += nx.transpose() * scores;
                of_output = norm_gradient(x, scores * head.value.transpose());
            }
            gradient = of_output;
            for (auto i = traces.size(); i-- > 0;) gradient = layers_here[i].backward(gradient, traces[i]);
            if (stage == 0)
                for (Index i = 0; i < length; ++i)
                    embedding.gradient.row(word(first + backward, first_token + i)) += gradient.row(i);
            flights.pop_front();
        }
        weights.step(at.replicas, step + 1);
        at.replicas.all_reduce(loss);
        pp.broadcast(loss, pp.size() - 1);
        losses.push_back(loss / static_cast<double>(batch * tokens));
    }
    return losses;
}

rankmesh::Member join(rankmesh::World& world, const rankmesh::Mesh& mesh) {
    return world.join(mesh, {.over = {{"dp", "cp"}}});
}

/// Trains on the mesh and on one rank, and prints both; false if a loss differs by more than 1e-9.
bool compare(rankmesh::World& world, const rankmesh::Mesh& mesh, int steps) {
    const auto losses = train(join(world, mesh), steps);
    if (world.rank() != 0) return true;
    auto right = true;
    rankmesh::threads::run(1, [&](rankmesh::World& alone) {
        const auto expected = train(join(alone, rankmesh::Mesh::parse("pp=1 dp=1 cp=1 tp=1")), steps);
        for (std::size_t i = 0; i < losses.size(); ++i) {
            std::printf("step %2zu: loss %.12f, on one rank %.12f\n", i + 1, losses[i], expected[i]);
            right = right && std::fabs(losses[i] - expected[i]) < 1e-9;
        }
    });
    std::puts(right ? "the losses are those of one rank" : "a loss differs from that of one rank");
    return right;
}

}  // namespace

int main(int argc, char** argv) try {
    const auto mesh = rankmesh::Mesh::parse(argc > 1 ? argv[1] : "pp=2 dp=2 cp=1 tp=2");
    const auto steps = argc > 2 ? std::stoi(argv[2]) : 3;
    for (const auto& [axis, whole] : {std::pair("pp", layers), {"dp", batch}, {"cp", tokens}, {"tp", heads}})
        if (whole % mesh.size(axis) != 0)
            throw rankmesh::UsageError(std::string(axis) + " must divide " + std::to_string(whole));
    auto right = true;
    if (rankmesh::is_launched()) {
        auto world = rankmesh::World::from_environment(argc, argv);
        right = compare(world, mesh, steps);
    } else {
        rankmesh::threads::run(mesh.size(), [&](rankmesh::World& world) {
            if (!compare(world, mesh, steps)) right = false;
        });
    }
    return right ? 0 : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return 2;
}
