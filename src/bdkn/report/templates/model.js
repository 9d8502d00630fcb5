"use strict";
// The model in the HTML report: the same computations as bdkn in Python, for one row at a time.
const bdkn = (() => {
  const TYPES = { f32: Float32Array, f64: Float64Array, i8: Int8Array, u8: Uint8Array, i16: Int16Array,
                  u16: Uint16Array, i32: Int32Array, u32: Uint32Array };
  const ROOT_2PI = Math.sqrt(2 * Math.PI), GAUSSIAN_DF = 1e8;

  function unpack(data) {
    if (data === null || data === undefined) return null;
    const [type, text] = Object.entries(data)[0];
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return new TYPES[type](bytes.buffer);
  }
  const clip = (x, low, high) => Math.min(Math.max(x, low), high);

  // ---- special functions
  const LANCZOS = [0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
    -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];
  function lgamma(x) {
    if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - lgamma(1 - x);
    if (x > 1e4) return (x - 0.5) * Math.log(x) - x + 0.9189385332046727 + 1 / (12 * x);
    let sum = LANCZOS[0];
    for (let i = 1; i < 9; i++) sum += LANCZOS[i] / (x - 1 + i);
    const t = x + 6.5;
    return 0.9189385332046727 + (x - 0.5) * Math.log(t) - t + Math.log(sum);
  }
  function erfc(x) {
    if (x < 0) return 2 - erfc(-x);
    if (x > 27) return 0;
    if (x < 2.5) {
      let term = x, sum = x;
      for (let n = 1; n < 200; n++) {
        term *= -x * x / n;
        const part = term / (2 * n + 1);
        sum += part;
        if (Math.abs(part) < 1e-17 * Math.abs(sum)) break;
      }
      return 1 - 2 / Math.sqrt(Math.PI) * sum;
    }
    let f = 0;
    for (let k = 80; k > 0; k--) f = k / 2 / (x + f);
    return Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + f);
  }
  const normalCdf = (z) => 0.5 * erfc(-z / Math.SQRT2);
  const normalPdf = (z) => Math.exp(-0.5 * z * z) / ROOT_2PI;
  function fraction(a, b, x) {
    const tiny = 1e-300, safe = (v) => (Math.abs(v) > tiny ? v : tiny);
    let c = 1, d = 1 / safe(1 - (a + b) * x / (a + 1)), h = d;
    for (let m = 1; m < 20000; m++) {
      let step = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
      d = 1 / safe(1 + step * d); c = safe(1 + step / c); h *= d * c;
      step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
      d = 1 / safe(1 + step * d); c = safe(1 + step / c); h *= d * c;
      if (Math.abs(d * c - 1) < 1e-15) break;
    }
    return h;
  }
  class StandardT {
    constructor(df) { this.df = df; this.norm = lgamma(df / 2) + lgamma(0.5) - lgamma(df / 2 + 0.5); }
    pdf(z) {
      if (this.df > GAUSSIAN_DF) return normalPdf(z);
      return Math.exp(-0.5 * (this.df + 1) * Math.log1p(z * z / this.df) - 0.5 * Math.log(this.df) - this.norm);
    }
    cdf(z) {
      const tail = this.lowerTail(-Math.abs(z));
      return z <= 0 ? tail : 1 - tail;
    }
    lowerTail(z) {
      const df = this.df;
      if (df > GAUSSIAN_DF) return normalCdf(z);
      if (z === 0) return 0.5;
      if (z * z > 1e300) return 0;
      const x = df / (df + z * z), rest = z * z / (df + z * z);
      const front = Math.exp(-0.5 * df * Math.log1p(z * z / df) + 0.5 * Math.log(rest) - this.norm);
      if (x < (0.5 * df + 1) / (0.5 * df + 2.5)) return 0.5 * front * fraction(0.5 * df, 0.5, x) / (0.5 * df);
      return 0.5 * (1 - front * fraction(0.5, 0.5 * df, rest) / 0.5);
    }
  }

  // ---- distributions: {pdf, cdf, ppf, mean, variance, median}
  // Quantiles of an increasing function, between bounds that grow until they hold the level.
  function quantile(cdf, pdf, level, centre, width) {
    let low = centre - width, high = centre + width, reach = width;
    while (cdf(low) > level && reach < 1e300) { reach *= 2; low = centre - reach; }
    reach = width;
    while (cdf(high) < level && reach < 1e300) { reach *= 2; high = centre + reach; }
    let x = 0.5 * (low + high), step = high - low;
    for (let i = 0; i < 200; i++) {
      const excess = cdf(x) - level;
      if (excess < 0) low = x; else high = x;
      let move = -excess / pdf(x);
      if (!(x + move >= low && x + move <= high && Math.abs(move) <= 0.5 * step)) move = 0.5 * (low + high) - x;
      x += move; step = Math.abs(move);
      if (Math.abs(excess) < 1e-15 || step <= 4e-16 * Math.max(Math.abs(x), 1e-300)) break;
    }
    return x;
  }
  // The integral of f times a density over [low, high], by Gauss's rule of five nodes on panels of a stretched variable;
  // panels end at the breaks, where f has a kink.
  const NODES = [0, 0.5384693101056831, -0.5384693101056831, 0.9061798459386640, -0.9061798459386640];
  const SHARES = [128 / 225, 0.4786286704993665, 0.4786286704993665, 0.2369268850561891, 0.2369268850561891];
  function expect(f, density, low, high, breaks, [stretch, shrink], reach, panels) {
    const first = clip(shrink(low), -reach, reach), last = clip(shrink(high), -reach, reach);
    const ends = [first, ...breaks.map(shrink).filter((u) => u > first && u < last).sort((a, b) => a - b), last];
    let sum = 0;
    for (let e = 1; e < ends.length; e++) {
      const count = Math.ceil(panels * (ends[e] - ends[e - 1]) / (2 * reach)), half = (ends[e] - ends[e - 1]) / count / 2;
      for (let k = 0; k < count; k++) {
        for (let i = 0; i < 5; i++) {
          const [z, slope] = stretch(ends[e - 1] + half * (2 * k + 1 + NODES[i]));
          sum += f(z) * density(z) * slope * half * SHARES[i];
        }
      }
    }
    return sum;
  }
  const SINH = [(u) => [Math.sinh(u), Math.cosh(u)], Math.asinh], PLAIN = [(u) => [u, 1], (z) => z];

  // Mixture of a Student-t with weight kept and Gaussians {at, width, mass}, in units of scale around loc.
  class Mixture {
    constructor(df, loc, scale, kept = 1, parts = []) {
      this.t = new StandardT(df);
      this.loc = loc; this.scale = Math.max(scale, 1e-300); this.kept = kept;
      this.parts = parts.filter((part) => part.mass > 0);
    }
    pdf(y) {
      const u = (y - this.loc) / this.scale;
      let f = this.kept > 0 ? this.kept * this.t.pdf(u) : 0;
      for (const p of this.parts) f += p.mass * normalPdf((u - p.at) / p.width) / p.width;
      return f / this.scale;
    }
    cdf(y) {
      const u = (y - this.loc) / this.scale;
      let F = this.kept > 0 ? this.kept * this.t.cdf(u) : 0;
      for (const p of this.parts) F += p.mass * normalCdf((u - p.at) / p.width);
      return clip(F, 0, 1);
    }
    ppf(level) {
      if (level === 0.5 && !this.parts.length) return this.loc;
      const own = (u) => this.cdf(this.loc + this.scale * u), slope = (u) => this.pdf(this.loc + this.scale * u) * this.scale;
      return this.loc + this.scale * quantile(own, slope, level, 0, 2);
    }
    mean() { return this.loc + this.scale * this.parts.reduce((sum, p) => sum + p.mass * p.at, 0); }
    variance() {
      const offset = this.parts.reduce((sum, p) => sum + p.mass * p.at, 0);
      const squares = this.parts.reduce((sum, p) => sum + p.mass * (p.at * p.at + p.width * p.width), 0);
      const own = this.kept > 0 ? this.kept * (this.t.df > 2 ? 1 / (1 - 2 / this.t.df) : Infinity) : 0;
      return this.scale ** 2 * (own + squares - offset * offset);
    }
    // The integral of f from low to high, component by component.
    integral(f, low, high, breaks) {
      const at = (z) => this.loc + this.scale * z, own = (y) => (y - this.loc) / this.scale;
      const [a, b] = [own(low), own(high)], kinks = breaks.map(own);
      let sum = 0;
      if (this.kept > 0) {
        const reach = clip(40 / (this.t.df - 1), 8, 36), density = (z) => this.t.pdf(z);
        sum += this.kept * expect((z) => f(at(z)), density, a, b, kinks, SINH, reach, 4 * reach);
      }
      for (const p of this.parts) {
        const inner = (u) => (u - p.at) / p.width, value = (z) => f(at(p.at + p.width * z));
        sum += p.mass * expect(value, normalPdf, inner(a), inner(b), kinks.map(inner), PLAIN, 8, 8);
      }
      return sum;
    }
    interval(coverage) { return [this.ppf((1 - coverage) / 2), this.ppf((1 + coverage) / 2)]; }
  }

  // ---- links
  const grown = (x, power) => (power === 0 ? Math.log1p(x) : Math.expm1(power * Math.log1p(x)) / power);
  const shrunk = (z, power) => (power === 0 ? Math.expm1(z) : Math.expm1(Math.log1p(power * z) / power));
  const LINKS = {
    identity: () => ({ forward: (y) => y, inverse: (z) => z, logDerivative: () => 0 }),
    log: ({ lower }) => ({ forward: (y) => Math.log(y - lower), inverse: (z) => lower + Math.exp(z),
      logDerivative: (y) => -Math.log(y - lower) }),
    logit: ({ lower, upper }) => ({ forward: (y) => Math.log(y - lower) - Math.log(upper - y),
      inverse: (z) => lower + (upper - lower) / (1 + Math.exp(-z)),
      logDerivative: (y) => Math.log(upper - lower) - Math.log(y - lower) - Math.log(upper - y) }),
    power: ({ power, centre, unit }) => ({
      forward: (y) => { const x = (y - centre) / unit; return grown(Math.max(x, 0), power) - grown(Math.max(-x, 0), 2 - power); },
      inverse: (z) => centre + unit * (shrunk(Math.max(z, 0), power) - shrunk(Math.max(-z, 0), 2 - power)),
      logDerivative: (y) => { const x = (y - centre) / unit; return (power - 1) * Math.sign(x) * Math.log1p(Math.abs(x)) - Math.log(unit); } }),
    mirrored: ({ link }) => { const g = makeLink(link); return { forward: (y) => -g.forward(-y), inverse: (z) => -g.inverse(-z),
      logDerivative: (y) => g.logDerivative(-y) }; },
    continued: ({ link, low, high }) => {
      const g = makeLink(link), first = g.forward(low), last = g.forward(high);
      return {
        forward: (y) => { const x = clip(y, low, high); return g.forward(x) + Math.exp(g.logDerivative(x)) * (y - x); },
        inverse: (z) => { const c = clip(z, first, last), y = clip(g.inverse(c), low, high); return y + Math.exp(-g.logDerivative(y)) * (z - c); },
        logDerivative: (y) => g.logDerivative(clip(y, low, high)) };
    },
  };
  function makeLink(data) {
    const ends = (pair) => [pair[0] === null ? -Infinity : pair[0], pair[1] === null ? Infinity : pair[1]];
    return { ...LINKS[data.kind](data), support: ends(data.support), near: ends(data.near), breaks: data.breaks };
  }

  // The distribution of y, given the distribution of g(y), truncated to the bounds of the target.
  class Transformed {
    constructor(base, link) {
      this.base = base; this.link = link;
      const [lower, upper] = link.support;
      this.ends = [lower === -Infinity ? this.image(lower, -1) : link.forward(lower), upper === Infinity ? this.image(upper, 1) : link.forward(upper)];
      this.whole = !this.ends.some(Number.isFinite);
      this.moved = 0;
      if (!this.whole) {
        const margin = this.ends.map((end) => (Number.isFinite(end) ? 1e-9 * (1 + Math.abs(end)) : 0)), centre = base.ppf(0.5);
        this.moved = clip(centre, this.ends[0] + margin[0], this.ends[1] - margin[1]) - centre;
      }
      this.limits = this.ends.map((end, k) => (Number.isFinite(end) ? base.cdf(end - this.moved) : k));
    }
    image(end, sign) { const found = this.link.forward(end); return Number.isNaN(found) ? sign * Infinity : found; }
    target(z) {
      const [lower, upper] = this.link.support;
      if (z <= this.ends[0]) return lower;
      if (z >= this.ends[1]) return upper;
      return clip(this.link.inverse(z), lower, upper);
    }
    share() { return this.limits[1] - this.limits[0]; }
    pdf(y) {
      const [lower, upper] = this.link.support;
      if (y < lower || y > upper) return 0;
      const found = this.base.pdf(this.link.forward(y) - this.moved) * Math.exp(this.link.logDerivative(y)) / this.share();
      return Number.isFinite(found) ? found : 0;
    }
    cdf(y) {
      const x = clip(y, ...this.link.support);
      return clip((this.base.cdf(this.link.forward(x) - this.moved) - this.limits[0]) / this.share(), 0, 1);
    }
    ppf(level) {
      if (this.whole) return this.target(this.base.ppf(level));
      const z = this.base.ppf(this.limits[0] + level * this.share()) + this.moved;
      return this.target(clip(z, ...this.ends));
    }
    integral(f) {
      const [low, high] = this.ends.map((end) => end - this.moved), breaks = this.link.breaks.map((y) => this.link.forward(y) - this.moved);
      return this.base.integral((z) => f(this.target(z + this.moved)), low, high, breaks) / this.share();
    }
    mean() { return this.integral((y) => y); }
    variance() { const mean = this.mean(); return this.integral((y) => (y - mean) ** 2); }
    interval(coverage) {
      const [low, high] = [this.ppf((1 - coverage) / 2), this.ppf((1 + coverage) / 2)], { support, near } = this.link;
      return [low <= near[0] ? support[0] : low, high >= near[1] ? support[1] : high];
    }
  }

  // ---- networks
  const ACTIVATIONS = {
    relu: (z) => (z > 0 ? z : 0),
    leaky_relu: (z) => (z > 0 ? z : 0.01 * z),
    tanh: Math.tanh,
    silu: (z) => z / (1 + Math.exp(-z)),
  };
  const softplus = (z) => Math.max(z, 0) + Math.log1p(Math.exp(-Math.abs(z)));

  function standardizer(data) {
    const mean = unpack(data.mean), scale = unpack(data.scale), outliers = unpack(data.outliers), { bend, limit } = data;
    return (row) => Float32Array.from(mean, (m, j) => {
      let x = (row[j] - m) / scale[j];
      if (outliers && outliers[j] && Math.abs(x) > bend) x = Math.sign(x) * (bend + Math.log(Math.abs(x) / bend));
      return Number.isNaN(x) ? limit : clip(x, -limit, limit);
    });
  }
  function binned(data) {
    const columns = unpack(data.columns), [lower, width, mean, scale] = ["lower", "width", "mean", "scale"].map((name) => unpack(data[name]));
    return (x) => {
      const found = new Float32Array(x.length + columns.length);
      found.set(x);
      for (let k = 0; k < columns.length; k++) {
        const part = clip(Math.fround(Math.fround(x[columns[k]] - lower[k]) / width[k]), 0, 1);
        found[x.length + k] = Math.fround(part - mean[k]) / scale[k];
      }
      return found;
    };
  }
  function stackOf(data) {
    const weights = unpack(data.weights), encode = data.bins ? binned(data.bins) : (x) => x;
    const act = ACTIVATIONS[data.activation], widths = data.widths;
    return (x) => {
      const inputs = encode(x), found = [];
      let place = 0;
      for (let h = 0; h < data.count; h++) {
        let a = inputs;
        for (let layer = 1; layer < widths.length; layer++) {
          const nIn = widths[layer - 1], nOut = widths[layer], bias = place + nIn * nOut, z = new Float64Array(nOut);
          for (let o = 0; o < nOut; o++) {
            let sum = weights[bias + o];
            const start = place + o * nIn;
            for (let i = 0; i < nIn; i++) sum += weights[start + i] * a[i];
            z[o] = layer < widths.length - 1 ? act(sum) : sum;
          }
          place = bias + nOut;
          a = z;
        }
        found.push([a[0], softplus(a[1]) + 1e-6]);
      }
      return found;
    };
  }
  function ensembleOf(data) {
    const scale = standardizer(data.inputs), stacks = data.stacks.map(stackOf), { folds, members, order, variances } = data;
    return (row) => {
      const x = scale(row), all = stacks.flatMap((stack) => stack(x)), nets = order.map((k) => all[k]);
      const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
      const spread = (values) => { const m = mean(values); return mean(values.map((v) => (v - m) ** 2)); };
      const byMember = Array.from({ length: members }, (_, h) => Array.from({ length: folds }, (_, f) => nets[f * members + h]));
      const own = byMember.map((nets, h) => nets.map((net) => (variances ? variances[h] : net[1])));
      return {
        means: byMember.map((nets) => mean(nets.map((net) => net[0]))),
        memberVariances: byMember.map((nets, h) => mean(own[h]) + spread(nets.map((net) => net[0]))),
        noise: mean(own.flat()),
        disagreement: mean(Array.from({ length: folds }, (_, f) => spread(byMember.map((nets) => nets[f][0])))),
        foldVariance: byMember.map((nets) => spread(nets.map((net) => net[0]))),
      };
    };
  }

  // ---- combination
  function combinationOf(data) {
    const mean = unpack(data.mean), root = unpack(data.root), H = mean.length, weights = mean.slice(0, data.intercept ? H - 1 : H);
    const total = weights.reduce((a, b) => a + b, 0), sized = weights.reduce((a, b) => a + Math.abs(b), 0) || 1;
    const divisor = Math.abs(total) > 0.5 * sized ? total : sized;
    return {
      ...data,
      location(phi) { return phi.reduce((sum, value, h) => sum + value * mean[h], 0); },
      leverage(phi) {  // |T⁻ᵀφ|² by forward substitution, T the triangular root
        const w = new Float64Array(H);
        let sum = 0;
        for (let k = 0; k < H; k++) {
          let value = phi[data.order[k]];
          for (let j = 0; j < k; j++) value -= root[j * H + k] * w[j];
          w[k] = value / root[k * H + k];
          sum += w[k] * w[k];
        }
        return sum;
      },
      spread(forecast) {
        const centre = forecast.means.reduce((sum, m, h) => sum + m * weights[h] / divisor, 0);
        return forecast.means.reduce((sum, m, h) =>
          sum + ((m - centre) ** 2 + forecast.foldVariance[h]) * weights.length * weights[h] ** 2, 0);
      },
    };
  }

  // ---- extra variance for extrapolation
  function extrapolationOf(data) {
    const { columns } = data, [center, scale, low, high] = ["center", "scale", "low", "high"].map((name) => unpack(columns[name]));
    const prototypes = unpack(data.prototypes), slopes = unpack(data.slopes), p = center.length, m = prototypes.length / p;
    const LIMIT = 1e18, ROUNDING = 2e-6, jump = 2 * data.typical_distance;
    const squares = Float64Array.from({ length: m }, (_, i) => { let s = 0; for (let j = 0; j < p; j++) s += prototypes[i * p + j] ** 2; return s; });
    return (row) => {
      const z = new Float64Array(p);
      let change = 0, farthest = -1, most = 0;
      for (let j = 0; j < p; j++) {
        const x = Number.isNaN(row[j]) ? center[j] : row[j], constant = low[j] === high[j];
        z[j] = clip((x - center[j]) / scale[j], -LIMIT, LIMIT);
        if (constant) z[j] = Math.abs(z[j]) > ROUNDING ? z[j] + Math.sign(z[j]) * jump : 0;
        let beyond = clip(Math.max(low[j] - x, x - high[j]) / scale[j], 0, LIMIT);
        if (constant && beyond <= ROUNDING) beyond = 0;
        change += (beyond * slopes[j]) ** 2;
        if (beyond > most) { most = beyond; farthest = j; }
      }
      let nearest = 0, best = -Infinity;
      for (let i = 0; i < m; i++) {
        let score = -0.5 * squares[i];
        for (let j = 0; j < p; j++) score += z[j] * prototypes[i * p + j];
        if (score > best) { best = score; nearest = i; }
      }
      let distance = 0, step = 0;
      for (let j = 0; j < p; j++) {
        const gap = z[j] - prototypes[nearest * p + j];
        distance += gap * gap;
        if (most === 0 && Math.abs(gap) > step) { step = Math.abs(gap); farthest = j; }
      }
      const ratio = Math.sqrt(distance) / data.typical_distance;
      return { ratio, change, column: farthest, status: ratio <= 1 ? "inside" : most > 0 ? "outside" : "gap" };
    };
  }
  function outsideVariance(data, place, D) {
    const w = clip(place.ratio - 1, 0, 1);
    let excess = (1 + 2 * w) * (D - data.usual) + 10 * Math.max(D - 10 * data.usual, 0);
    excess *= Math.min(4 * place.ratio, 1);
    return Math.max(excess, w * (D - data.typical), 0.1 * w * place.change);
  }

  // ---- densities of neighbours in a forest
  function forestOf(data) {
    const feature = unpack(data.feature), n = feature.length, right = new Int32Array(n), start = new Int32Array(n), stop = new Int32Array(n);
    const given = unpack(data.threshold), size = unpack(data.size), threshold = new Float32Array(n), roots = [];
    let split = 0, leaf = 0, place = 0, node = 0;
    while (node < n) {
      roots.push(node);
      const open = [];  // splits whose right side is still to come
      for (let done = false; !done; node++) {
        start[node] = place;
        if (feature[node] >= 0) { threshold[node] = given[split++]; open.push({ node, left: true }); continue; }
        place += size[leaf++];
        stop[node] = place;
        while (open.length && !open[open.length - 1].left) stop[open.pop().node] = place;
        if (!open.length) done = true;
        else { open[open.length - 1].left = false; right[open[open.length - 1].node] = node + 1; }
      }
    }
    return { feature, threshold, right, start, stop, roots, rows: unpack(data.rows), copies: unpack(data.copies) };
  }
  function densityOf(data) {
    const scale = standardizer(data.inputs), forest = forestOf(data.forest), targets = unpack(data.targets), errors = unpack(data.errors);
    const { kinds, knots, shares, tilt, even, narrowing, floor } = data, anyBroad = kinds.some((kind) => kind.broad);
    const BROAD = 4, AT_ONCE = 32;
    function nodesOf(x) {
      return forest.roots.map((root) => {
        let node = root, last = root;
        while (forest.feature[node] >= 0) {
          node = x[forest.feature[node]] <= forest.threshold[node] ? node + 1 : forest.right[node];
          if (forest.stop[node] - forest.start[node] >= BROAD) last = node;
        }
        return [node, last];
      });
    }
    function addRows(node, total) {
      const begin = forest.start[node], end = forest.stop[node], step = Math.floor((end - begin + AT_ONCE - 1) / AT_ONCE);
      let size = 0, squares = 0;
      for (let j = begin; j < end; j += step) size += forest.copies[j];
      for (let j = begin; j < end; j += step) {
        const row = forest.rows[j], share = forest.copies[j] * (1 / size);
        total.set(row, (total.get(row) || 0) + share);
        squares += share * share;
      }
      return squares;
    }
    function neighbours(x) {
      const near = new Map(), broad = new Map();
      let alone = 0;
      for (const [leaf, wide] of nodesOf(x)) { alone += addRows(leaf, near); if (anyBroad) addRows(wide, broad); }
      let both = 0;
      for (const value of near.values()) both += value ** 2;
      const used = forest.roots.length, normal = (total) => {
        let whole = 0;
        for (const value of total.values()) whole += value;
        return { rows: [...total.keys()], weights: [...total.values()].map((value) => value / whole) };
      };
      return { groups: [normal(near), normal(broad)], agreement: (both - alone) / Math.max(1, used * (used - 1)) };
    }
    function merged(at, weights, slots) {
      const m = at.length, room = m <= slots ? slots : Math.floor(slots * 3 / 4);
      const cut = m <= slots ? -1 : [...weights].sort((a, b) => a - b)[m - room - 1];
      const out = Array.from({ length: slots }, () => ({ at: 0, spread: 0, mass: 0 }));
      let kept = 0, low = Infinity, high = -Infinity;
      for (let j = 0; j < m; j++) {
        if (kept < room && weights[j] > cut) out[kept++] = { at: at[j], spread: 0, mass: weights[j] };
        else { low = Math.min(low, at[j]); high = Math.max(high, at[j]); }
      }
      const cells = slots - kept, step = high > low ? (high - low) / cells : 1;
      for (let j = 0, taken = 0; j < m; j++) {
        if (taken < kept && weights[j] > cut) { taken++; continue; }
        const cell = out[kept + Math.min(Math.floor((at[j] - low) / step), cells - 1)];
        cell.mass += weights[j];
        const gap = at[j] - cell.at;
        cell.at += gap * weights[j] / cell.mass;
        cell.spread += weights[j] * gap * (at[j] - cell.at);
      }
      for (const cell of out.slice(kept)) if (cell.mass > 0) cell.spread = Math.sqrt(Math.max(cell.spread / cell.mass, 0));
      return out;
    }
    function interpolated(g, k) {
      let found = shares[0][k];
      for (let j = 1; j < knots.length; j++) {
        if (g >= knots[j]) found = shares[j][k];
        else if (g > knots[j - 1]) {
          const part = (g - knots[j - 1]) / (knots[j] - knots[j - 1]);
          found = (1 - part) * shares[j - 1][k] + part * shares[j][k];
        }
      }
      return found;
    }
    return (row, df, loc, s, inside) => {
      const { groups, agreement } = neighbours(scale(row)), g = Math.log(Math.max(agreement, 1e-3));
      const unit = 1 - inside * (1 - narrowing), parts = [];
      let kept = 1 - inside * (1 - interpolated(g, 0));
      kinds.forEach((kind, k) => {
        const { rows, weights } = groups[kind.broad ? 1 : 0];
        const at = rows.map((i) => (kind.of_errors ? errors[i] : (targets[i] - loc) / s));
        let own = weights;
        if (kind.power > 0) {
          own = weights.map((w, j) => w * Math.exp(-0.5 * kind.power * (df + 1) * Math.log1p(at[j] * at[j] / df)));
          const whole = own.reduce((a, b) => a + b, 0);
          own = own.map((w, j) => (whole > 0 ? w / whole : weights[j]));
        }
        const h = Math.max(kind.of_errors ? kind.width : kind.width / s, floor / s), share = inside * interpolated(g, 1 + k);
        for (const cell of merged(at, own, kind.last - kind.first)) {
          const width = Math.sqrt(cell.spread ** 2 + h * h);
          parts.push({ from: cell.at, at: Math.fround(cell.at / unit), width: Math.fround(width / unit), mass: Math.fround(cell.mass * share) });
        }
      });
      if (tilt > 0 && inside > 0) {
        let below = 0, whole = kept * even;
        for (const p of [...parts].sort((a, b) => a.at - b.at)) {
          const F = below + 0.5 * p.mass + kept * 0.5 * (1 + Math.tanh(0.8 * p.from));
          below += p.mass;
          p.mass *= Math.max(4 * F * (1 - F), 0) ** tilt;
          whole += p.mass;
        }
        kept *= even / whole;
        for (const p of parts) p.mass /= whole;
      }
      const total = kept + parts.reduce((sum, p) => sum + p.mass, 0);
      return new Mixture(df, loc, s * unit, clip(kept + 1 - total, 0, 1), parts);
    };
  }

  // ---- the model
  function affine(mixture, scale, shift) {
    mixture.loc = scale * mixture.loc + shift;
    mixture.scale *= scale;
    return mixture;
  }
  function modelOf(data) {
    const networks = ensembleOf(data.networks), targets = data.targets, link = targets.link ? makeLink(targets.link) : null;
    const restore = (base) => (link ? new Transformed(base, link) : base);
    if (data.ensemble) {
      return (row) => {
        const { means, memberVariances: variances } = networks(row), H = means.length, mean = means.reduce((a, b) => a + b, 0) / H;
        const apart = means.reduce((sum, m) => sum + (m - mean) ** 2, 0) / H, noise = variances.reduce((a, b) => a + b, 0) / H;
        const one = data.ensemble === "gaussian";
        const parts = one ? [{ at: mean, width: Math.sqrt(apart + noise), mass: 1 }]
          : means.map((m, h) => ({ at: m, width: Math.sqrt(variances[h]), mass: 1 / H }));
        return { dist: affine(new Mixture(10, 0, 1, 0, parts), targets.scale, targets.mean), parts: { noise, disagreement: apart }, place: null };
      };
    }
    const c = combinationOf(data.combination), place = data.extrapolation ? extrapolationOf(data.extrapolation) : null;
    const shape = data.density ? densityOf(data.density) : null;
    return (row) => {
      const forecast = networks(row), phi = c.intercept ? [...forecast.means, 1] : forecast.means;
      const v = forecast.noise + forecast.disagreement, noise = c.tempering ? v ** c.tempering : 1;
      const loc = c.location(phi), leverage = c.leverage(phi), squared = c.factor ** 2 * c.unit;
      const where = place ? place(row) : null;
      const outside = where ? outsideVariance(data.extrapolation, where, c.spread(forecast)) : 0;
      const scale = Math.sqrt(squared * (noise + leverage) + outside);
      const apart = c.tempering ? forecast.disagreement / v : 0, widen = c.df > 2 ? 1 / (1 - 2 / c.df) : Infinity;
      const parts = { noise: widen * squared * noise * (1 - apart), disagreement: widen * squared * noise * apart,
        weights: widen * squared * leverage, outside: widen * outside };
      let base = new Mixture(c.df, loc, scale);
      if (shape && scale > 0) {
        const student = base.variance();
        base = shape(row, c.df, loc, scale, clip(1 - outside / scale ** 2, 0, 1));
        parts.shape = base.variance() - student;
      }
      return { dist: restore(affine(base, targets.scale, targets.mean)), parts, place: where };
    };
  }
  // ---- columns of a data frame as inputs; a value is a number, a number of a category, a date, or given codes
  function columnOf(data) {
    const flagged = (value) => (data.missing ? [value === null ? data.fill : value, value === null ? 1 : 0] : [value === null ? data.fill : value]);
    if (["number", "boolean", "duration"].includes(data.kind)) return flagged;
    if (data.kind === "date") {
      return (value) => {
        const codes = flagged(value === null ? null : Date.parse(value.length > 10 ? `${value}Z` : value) / 86400e3);
        return [...codes, ...data.cycles.flatMap((length) => { const turn = codes[0] * (2 * Math.PI / length); return [Math.sin(turn), Math.cos(turn)]; })];
      };
    }
    if (data.kind === "category") {
      const inputs = unpack(data.inputs);
      return (value) => Array.from(inputs.slice(value * data.width, (value + 1) * data.width));
    }
    return data.kind === "text" ? (value) => value.codes : () => [];
  }
  function encoderOf(table) {
    if (!table) return (values) => values;
    const columns = table.map(columnOf);
    return (values) => columns.flatMap((column, j) => column(values[j]));
  }
  return { modelOf, encoderOf, unpack };
})();
if (typeof module !== "undefined") module.exports = bdkn;
