'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const $ = id => document.getElementById(id);
  const cols = data.rows;
  const count = cols.value.length;
  const coded = key => i => cols[key].texts[cols[key].places[i]];
  const op = coded('op'), phase = coded('phase'), format = coded('format'), rule = coded('rule');
  const reason = coded('reason'), place = coded('location'), layer = coded('group');
  const isCast = i => op(i) === 'quantize';
  const isDot = i => format(i).includes('->');
  const isWide = i => cols.wide[i];
  const all = Array.from({ length: count }, (_, i) => i);
  const casts = all.filter(isCast);
  const stats = data.statistics;
  const castLine = new Map(stats.casts.map((row, line) => [row, line]));
  const color = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
  const escape = text => String(text).replace(/[&<>"']/g, c => '&#' + c.charCodeAt(0) + ';');
  const power = e => (e === null ? '' : '2^' + e);
  const short = x => (x === null || x === undefined ? '' : Number(x.toPrecision(3)).toString());
  const share = x => (x === null || x === undefined ? '' : (100 * x).toPrecision(2) + ' %');
  const decibels = x => (x === null || x === undefined ? '' : x.toFixed(1) + ' dB');
  const family = i => {
    const name = phase(i);
    return ['forward', 'backward', 'optimizer'].includes(name) ? name : 'other';
  };
  const title = i => (cols.cast[i] || cols.value[i] || '#' + i);
  const describe = i =>
    `${title(i)} = ${op(i)} ${power(cols.scale[i])} ${format(i)}\n${reason(i)}\n${place(i)}`;
  let selected = -1;

  // Returns a metric of a cast at the last step, or null.
  const measured = (metric, i) => {
    const line = castLine.get(i);
    if (line === undefined) return null;
    const values = stats.metrics[metric][line];
    return values.length ? values[values.length - 1] : null;
  };

  // --- Head ---------------------------------------------------------------

  const tile = (value, what) => `<span><b>${escape(value)}</b> ${escape(what)}</span>`;
  const fillHead = () => {
    $('recipe').textContent = data.recipe;
    const narrow = all.filter(i => isDot(i) && /f8|f16/.test(format(i).split('->')[0])).length;
    const wide = all.filter(i => isDot(i) && isWide(i)).length;
    const tiles = [tile(count, 'rows'), tile(casts.length, 'casts'), tile(narrow, 'dots on narrow operands'),
      tile(wide, 'dots that stay wide')];
    for (const entry of data.summary.ops || []) {
      const scale = Object.entries(entry.scale_ops).map(([k, n]) => `${n} ${k}`).join(', ');
      tiles.push(tile(entry.ops, `ops after ${entry.after}${scale ? ', ' + scale : ''}`));
    }
    if (stats.steps) tiles.push(tile(stats.steps, 'steps measured'));
    $('numbers').innerHTML = tiles.join('');
  };

  // --- Canvases -----------------------------------------------------------

  // Scales the canvas to the screen's pixels; returns its context and size.
  const prepare = (canvas, height) => {
    if (height) canvas.style.height = height + 'px';
    const box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(box.width * ratio));
    canvas.height = Math.max(1, Math.round(box.height * ratio));
    const g = canvas.getContext('2d');
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, box.width, box.height);
    g.font = '11px system-ui, sans-serif';
    return { g, width: box.width, height: box.height };
  };

  const axis = (g, low, high, y, width) => {
    const step = Math.max(1, Math.ceil((high - low) / 8));
    for (let e = Math.ceil(low / step) * step; e <= high; e += step) {
      g.strokeStyle = color('line');
      g.beginPath(); g.moveTo(40, y(e)); g.lineTo(width, y(e)); g.stroke();
      g.fillStyle = color('soft');
      g.fillText('2^' + e, 4, y(e) + 4);
    }
  };

  // Shows a tooltip and selects on a click; `at` maps a position to a row, or -1.
  const listen = (canvas, at, text) => {
    const find = event => {
      const box = canvas.getBoundingClientRect();
      return at(event.clientX - box.left, event.clientY - box.top);
    };
    canvas.addEventListener('mousemove', event => {
      const found = find(event);
      const row = Array.isArray(found) ? found[0] : found;
      $('tip').hidden = row < 0;
      if (row < 0) return;
      $('tip').textContent = text(found);
      $('tip').style.left = Math.min(event.clientX + 14, window.innerWidth - 360) + 'px';
      $('tip').style.top = event.clientY + 16 + 'px';
    });
    canvas.addEventListener('mouseleave', () => { $('tip').hidden = true; });
    canvas.addEventListener('click', event => {
      const found = find(event);
      select(Array.isArray(found) ? found[0] : found, true);
    });
  };

  // --- Scale over depth ---------------------------------------------------

  const points = all.filter(i => cols.scale[i] !== null && op(i) !== 'constant');
  const depth = { x: () => 0, y: () => 0 };
  const drawDepth = () => {
    const { g, width, height } = prepare($('depth'));
    const scales = points.map(i => cols.scale[i]);
    const low = scales.reduce((a, b) => Math.min(a, b), 0) - 1;
    const high = scales.reduce((a, b) => Math.max(a, b), 0) + 1;
    depth.x = i => 44 + (width - 52) * (count > 1 ? i / (count - 1) : 0.5);
    depth.y = e => height - 10 - (height - 20) * (e - low) / (high - low);
    axis(g, low, high, depth.y, width);
    const dot = points.length > 2000 ? 2 : points.length > 300 ? 3 : 5;
    for (const i of points) {
      const size = isCast(i) ? dot + 2 : dot;
      g.fillStyle = isCast(i) ? color('cast') : color(family(i));
      g.globalAlpha = isCast(i) ? 1 : 0.6;
      g.fillRect(depth.x(i) - size / 2, depth.y(cols.scale[i]) - size / 2, size, size);
    }
    g.globalAlpha = 1;
    if (selected >= 0 && cols.scale[selected] !== null) {
      g.strokeStyle = color('text');
      g.beginPath();
      g.arc(depth.x(selected), depth.y(cols.scale[selected]), 6, 0, 7);
      g.stroke();
    }
  };
  const nearest = (px, py) => {
    let best = -1, distance = 100;
    for (const i of points) {
      const dx = depth.x(i) - px, dy = depth.y(cols.scale[i]) - py;
      const d = dx * dx + dy * dy - (isCast(i) ? 4 : 0);
      if (d < distance) { distance = d; best = i; }
    }
    return best;
  };
  const fillLegend = () => {
    const names = ['forward', 'backward', 'optimizer', 'other', 'cast'];
    $('depth-legend').innerHTML = names
      .map(n => `<i style="background:var(--${n})"></i>${n === 'other' ? 'arguments' : n}`).join('');
  };

  // --- Casts --------------------------------------------------------------

  const castAt = (px, width) => {
    const k = Math.floor((px - 44) / ((width - 48) / Math.max(1, casts.length)));
    return k >= 0 && k < casts.length ? casts[k] : -1;
  };
  const range = i => {
    const limits = data.formats[format(i)];
    const scale = cols.scale[i] ?? (measured('amax', i) ? Math.log2(measured('amax', i)) - limits[1] : 0);
    return [limits[0] + scale, limits[1] + scale];
  };
  const drawCasts = () => {
    const { g, width, height } = prepare($('casts'));
    if (!casts.length) { g.fillText('nothing is cast', 12, 20); return; }
    const low = Math.min(...casts.map(i => range(i)[0])) - 1;
    const high = Math.max(...casts.map(i => range(i)[1])) + 1;
    const y = e => height - 8 - (height - 16) * (e - low) / (high - low);
    axis(g, low, high, y, width);
    const step = (width - 48) / casts.length, bar = Math.max(1, step * 0.7);
    casts.forEach((i, k) => {
      const x = 44 + k * step, [bottom, top] = range(i);
      g.fillStyle = color('bar');
      g.fillRect(x, y(top), bar, y(bottom) - y(top));
      const rms = measured('rms', i) || cols.rms[i];
      if (rms) {
        g.fillStyle = color(family(i));
        const middle = Math.log2(rms);
        g.fillRect(x, y(middle + 2), bar, y(middle - 2) - y(middle + 2));
      }
      const most = measured('amax', i) || cols.bound[i];
      if (most) {
        g.fillStyle = color('wide');
        g.fillRect(x, y(Math.log2(most)) - 1, bar, 2);
      }
      if (i === selected) {
        g.strokeStyle = color('text');
        g.strokeRect(x - 1, y(top) - 1, bar + 2, y(bottom) - y(top) + 2);
      }
    });
  };
  const castText = i => describe(i) + '\nheadroom ' + short(cols.headroom[i]) + ' binades' +
    (measured('sqnr', i) !== null ? '\nmeasured ' + decibels(measured('sqnr', i)) : '');

  const drawHeadroom = () => {
    const known = casts.map(i => cols.headroom[i]).filter(x => x !== null);
    if (!known.length) { $('headroom').textContent = 'No headroom is known: scales are measured in the step.'; return; }
    const low = Math.floor(Math.min(...known)), high = Math.floor(Math.max(...known)) + 1;
    const bins = new Array(Math.max(1, high - low)).fill(0);
    known.forEach(x => { bins[Math.min(bins.length - 1, Math.floor(x) - low)] += 1; });
    const width = Math.max(200, $('headroom').clientWidth);
    const most = Math.max(...bins), step = width / bins.length;
    const bars = bins.map((n, k) => {
      const h = 85 * n / most, x = k * step;
      return `<rect x="${x + step * 0.1}" y="${100 - h}" width="${step * 0.8}" height="${h}">` +
        `<title>${n} casts with ${low + k} to ${low + k + 1} binades</title></rect>` +
        (n ? `<text x="${x + step / 2}" y="${96 - h}" text-anchor="middle">${n}</text>` : '') +
        `<text x="${x + step / 2}" y="115" text-anchor="middle">${low + k}</text>`;
    });
    $('headroom').innerHTML = `<svg viewBox="0 0 ${width} 130">${bars.join('')}` +
      `<text x="${width / 2}" y="128" text-anchor="middle">binades from the bound, or else the root mean square, to the largest value</text></svg>`;
  };

  // --- Heat strip ---------------------------------------------------------

  const strip = { line: 6, left: 44, metric: 'sqnr' };
  const stripValue = (line, step) => {
    if (strip.metric !== 'drift') return stats.metrics[strip.metric][line][step];
    const rms = stats.metrics.rms[line][step], scale = cols.scale[stats.casts[line]];
    return rms && scale !== null ? Math.log2(rms) - scale : null;
  };
  // Returns 0 for good to 1 for bad.
  const badness = value => {
    if (strip.metric === 'sqnr') return 1 - (value - 10) / 25;
    if (strip.metric === 'drift') return Math.abs(value) / 8;
    return value <= 0 ? 0 : 1 + Math.log10(Math.min(1, value)) / 5;
  };
  const heat = value => {
    if (value === null) return color('line');
    const t = Math.max(0, Math.min(1, badness(value)));
    return `hsl(${Math.round(200 - 190 * t)} 75% ${Math.round(62 - 14 * t)}%)`;
  };
  const drawStrip = () => {
    const lines = stats.casts.length;
    $('strip').hidden = !lines;
    $('metric').closest('p').hidden = !lines;
    if (!lines) {
      $('strip-hint').textContent = 'No run collected statistics. scalify.collect(step, *args) and ' +
        'scalify.transform(step, statistics=True) do; pass them to report.save(path, statistics).';
      return;
    }
    strip.line = Math.max(2, Math.min(14, 420 / lines));
    const { g, width } = prepare($('strip'), Math.ceil(lines * strip.line) + 22);
    const step = (width - strip.left - 4) / stats.steps;
    for (let line = 0; line < lines; ++line)
      for (let k = 0; k < stats.steps; ++k) {
        g.fillStyle = heat(stripValue(line, k));
        g.fillRect(strip.left + k * step, 2 + line * strip.line, Math.max(1, step - 0.5), strip.line - 0.5);
      }
    g.fillStyle = color('soft');
    g.fillText('step 0', strip.left, 16 + lines * strip.line);
    g.fillText('step ' + (stats.steps - 1), width - 60, 16 + lines * strip.line);
    g.fillText('first', 4, 12);
    g.fillText('last', 4, lines * strip.line);
    const keys = { sqnr: [35, 22, 10], drift: [0, 4, 8], saturated: [0, 1e-3, 1], flushed: [0, 1e-3, 1] };
    const name = { sqnr: decibels, drift: short, saturated: share, flushed: share }[strip.metric];
    $('strip-key').innerHTML = keys[strip.metric]
      .map(v => `<span style="background:${heat(v)};color:#000;padding:0 .5rem">${name(v)}</span>`).join(' ');
    $('strip-hint').textContent = 'One line a cast, in graph order; one column a step.';
  };
  const stripAt = (px, py) => {
    const line = Math.floor((py - 2) / strip.line);
    const step = Math.floor((px - strip.left) * stats.steps / ($('strip').clientWidth - strip.left - 4));
    if (line < 0 || line >= stats.casts.length || step < 0 || step >= stats.steps) return [-1, 0];
    return [stats.casts[line], step];
  };
  const stripText = ([i, step]) => {
    const line = castLine.get(i), of = metric => stats.metrics[metric][line][step];
    return `${title(i)}, step ${step}\nSQNR ${decibels(of('sqnr'))}, saturated ${share(of('saturated'))}, ` +
      `flushed ${share(of('flushed'))}\nrms ${short(of('rms'))}, largest ${short(of('amax'))}, scale ${power(cols.scale[i])}`;
  };

  // --- Values -------------------------------------------------------------

  const LINE = 26;
  const columns = [
    ['value', i => escape(title(i)), i => title(i)],
    ['op', i => escape(op(i)), op],
    ['scale', i => power(cols.scale[i]), i => cols.scale[i] ?? -999],
    ['format', i => escape(format(i)), format],
    ['headroom', i => short(cols.headroom[i]), i => cols.headroom[i] ?? 999],
    ['rule', i => escape(reason(i)), reason],
  ];
  const view = { sort: -1, down: false, closed: new Set(), items: [] };
  const haystack = all.map(i =>
    [cols.value[i], cols.source[i], cols.cast[i], op(i), phase(i), format(i), reason(i), rule(i), place(i)]
      .join(' ').toLowerCase());

  const groupOf = i => [phase(i) || 'values', layer(i)].filter(Boolean).join(' · ');
  const refresh = () => {
    const words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
    const kinds = { '': () => true, cast: isCast, dot: isDot, wide: isWide, argument: i => op(i) === 'argument' };
    const rows = all.filter(i => kinds[$('kind').value](i) && words.every(w => haystack[i].includes(w)));
    const key = view.sort >= 0 ? columns[view.sort][2] : i => i;
    const compare = (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : a - b);
    rows.sort((a, b) => (view.down ? compare(b, a) : compare(a, b)));
    view.items = [];
    if ($('grouped').checked) {
      const groups = new Map();
      for (const i of rows) {
        const name = groupOf(i);
        if (!groups.has(name)) groups.set(name, []);
        groups.get(name).push(i);
      }
      for (const [name, members] of groups) {
        view.items.push({ name, size: members.length });
        if (!view.closed.has(name)) for (const i of members) view.items.push(i);
      }
    } else {
      view.items = rows;
    }
    $('shown').textContent = `${rows.length} of ${count}`;
    $('grid').setAttribute('aria-rowcount', String(view.items.length + 1));
    $('pad').style.height = view.items.length * LINE + 'px';
    drawLines();
  };
  const lineOf = (item, at) => {
    if (typeof item === 'object') {
      const open = !view.closed.has(item.name);
      return `<div class="line group" role="row" aria-rowindex="${at + 2}" data-group="${escape(item.name)}">` +
        `<span role="rowheader" aria-expanded="${open}">${open ? '▾' : '▸'} ${escape(item.name)} (${item.size})</span></div>`;
    }
    const kind = [isCast(item) ? 'cast' : '', isWide(item) ? 'wide' : '', item === selected ? 'selected' : ''].join(' ');
    const cells = columns.map(([name, show]) =>
      `<span role="cell"${name === 'scale' || name === 'headroom' ? ' class="number"' : ''}>${show(item)}</span>`);
    return `<div class="line ${kind}" role="row" aria-rowindex="${at + 2}" aria-selected="${item === selected}" ` +
      `data-row="${item}">${cells.join('')}</div>`;
  };
  // Only the visible lines are in the document.
  const drawLines = () => {
    const first = Math.max(0, Math.floor($('scroll').scrollTop / LINE) - 5);
    const last = Math.min(view.items.length, first + Math.ceil($('scroll').clientHeight / LINE) + 10);
    $('lines').style.top = first * LINE + 'px';
    $('lines').innerHTML = view.items.slice(first, last).map((item, k) => lineOf(item, first + k)).join('');
  };
  const drawTitles = () => {
    $('head').innerHTML = columns.map(([name], k) => {
      const sorted = view.sort === k;
      const order = sorted ? (view.down ? 'descending' : 'ascending') : 'none';
      return `<span role="columnheader" aria-sort="${order}"><button data-sort="${k}">${name}` +
        `${sorted ? (view.down ? ' ▾' : ' ▴') : ''}</button></span>`;
    }).join('');
  };
  const reveal = () => {
    let at = view.items.indexOf(selected);
    if (at < 0 && selected >= 0) {
      view.closed.delete(groupOf(selected));
      $('filter').value = ''; $('kind').value = '';
      refresh();
      at = view.items.indexOf(selected);
    }
    const top = at * LINE, box = $('scroll');
    if (at >= 0 && (top < box.scrollTop || top > box.scrollTop + box.clientHeight - LINE))
      box.scrollTop = top - box.clientHeight / 2;
  };

  // --- One value ----------------------------------------------------------

  const chain = (root, most) => {
    const seen = new Set();
    let left = 200;
    const item = (i, level) => {
      const text = `<button data-select="${i}">${escape(title(i))}</button> ${escape(op(i))} ` +
        `<b>${power(cols.scale[i])}</b> ${escape(rule(i) || '')}`;
      const from = cols.from[i];
      if (!from.length) return `<li>${text}</li>`;
      if (seen.has(i)) return `<li>${text} (see above)</li>`;
      if (level >= most || left <= 0) return `<li>${text} (${from.length} more below)</li>`;
      seen.add(i);
      left -= from.length;
      return `<li>${text}<ul>${from.map(s => item(s, level + 1)).join('')}</ul></li>`;
    };
    return `<ul class="root">${item(root, 0)}</ul>`;
  };
  const spark = i => {
    const line = castLine.get(i);
    if (line === undefined) return '';
    const values = stats.metrics.sqnr[line];
    const known = values.filter(v => v !== null);
    if (known.length < 2) return '';
    const low = Math.min(...known) - 1, high = Math.max(...known) + 1;
    const path = values.map((v, k) => (v === null ? '' :
      `${(1000 * k / (values.length - 1)).toFixed(1)},${(60 - 60 * (v - low) / (high - low)).toFixed(1)}`)).filter(Boolean);
    return `<h3>SQNR over steps, ${decibels(Math.min(...known))} to ${decibels(Math.max(...known))}</h3>` +
      `<svg viewBox="0 0 1000 64" preserveAspectRatio="none" role="img" aria-label="SQNR over steps">` +
      `<polyline vector-effect="non-scaling-stroke" points="${path.join(' ')}"></polyline></svg>`;
  };
  const showDetail = () => {
    const i = selected, predicted = data.predicted[i];
    const pairs = [['op', op(i)], ['phase', phase(i)], ['scale', power(cols.scale[i])], ['format', format(i)],
      ['rule', rule(i)], ['wide', isWide(i) ? reason(i) : ''],
      ['facts', cols.rms[i] === null ? '' : `mean ${short(cols.mean[i])}, rms ${short(cols.rms[i])}` +
        (cols.bound[i] === null ? '' : `, bound ${short(cols.bound[i])}`)],
      ['headroom', cols.headroom[i] === null ? '' : short(cols.headroom[i]) + ' binades'],
      ['predicted', predicted ? `underflow ${share(predicted[0])}, overflow ${share(predicted[1])}, ${decibels(predicted[2])}` : ''],
      ['measured', castLine.has(i) ? `underflow ${share(measured('flushed', i))}, overflow ${share(measured('saturated', i))}, ` +
        `${decibels(measured('sqnr', i))}, rms ${short(measured('rms', i))}, largest ${short(measured('amax', i))}` : ''],
      ['range', cols.range[i]],
      ['location', place(i)],
      ['', cols.body.includes(i) ? 'in the body of a loop or a branch' : ''],
      ['', cols.dropped.includes(i) ? 'folded away: no longer in the graph' : '']];
    $('detail').innerHTML = `<h3>${escape(title(i))}</h3><dl>` +
      pairs.filter(([, v]) => v).map(([k, v]) => `<dt>${k}</dt><dd>${escape(v)}</dd>`).join('') +
      `</dl>${spark(i)}<h3>Why this scale</h3>${chain(i, 5)}`;
  };

  function select(i, move) {
    if (i < 0) return;
    selected = i;
    if (move) reveal();
    drawLines(); drawDepth(); drawCasts(); showDetail();
  }

  // --- Events -------------------------------------------------------------

  const redraw = () => { drawDepth(); drawCasts(); drawHeadroom(); drawStrip(); drawLines(); };
  listen($('depth'), nearest, describe);
  listen($('casts'), px => castAt(px, $('casts').clientWidth), castText);
  listen($('strip'), stripAt, stripText);
  $('metric').addEventListener('change', () => { strip.metric = $('metric').value; drawStrip(); });
  $('filter').addEventListener('input', refresh);
  $('kind').addEventListener('change', refresh);
  $('grouped').addEventListener('change', refresh);
  $('scroll').addEventListener('scroll', drawLines);
  $('head').addEventListener('click', event => {
    const button = event.target.closest('[data-sort]');
    if (!button) return;
    const k = Number(button.dataset.sort);
    if (view.sort === k && view.down) { view.sort = -1; view.down = false; }
    else { view.down = view.sort === k; view.sort = k; }
    drawTitles(); refresh();
  });
  $('lines').addEventListener('click', event => {
    const line = event.target.closest('.line');
    if (!line) return;
    if (line.dataset.group !== undefined) {
      const name = line.dataset.group;
      if (!view.closed.delete(name)) view.closed.add(name);
      refresh();
    } else {
      select(Number(line.dataset.row), false);
    }
  });
  $('detail').addEventListener('click', event => {
    const button = event.target.closest('[data-select]');
    if (button) select(Number(button.dataset.select), true);
  });
  $('grid').addEventListener('keydown', event => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
    if (!step) return;
    event.preventDefault();
    let at = view.items.indexOf(selected) + step;
    at = Math.max(0, Math.min(view.items.length - 1, at));
    while (typeof view.items[at] === 'object' && at + Math.sign(step) >= 0 &&
           at + Math.sign(step) < view.items.length) at += Math.sign(step);
    if (typeof view.items[at] === 'number') select(view.items[at], true);
  });
  window.addEventListener('resize', redraw);
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);

  fillHead(); fillLegend(); drawTitles(); refresh(); redraw();
  if (casts.length) select(casts[0], false);
})();
