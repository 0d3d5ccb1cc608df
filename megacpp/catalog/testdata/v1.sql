-- SPDX-License-Identifier: Apache-2.0
-- A catalog of version 1, dumped with sqlite3 as launches of that version left it: runs that fit, one that went down the
-- ladder, an injected fault, a launch on XLA.
PRAGMA application_id = 1298491203;
PRAGMA user_version = 1;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE signature (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT NOT NULL UNIQUE,
  subject TEXT NOT NULL,       -- key without the code version
  code_version TEXT NOT NULL,
  hardware TEXT NOT NULL,
  model TEXT NOT NULL,
  model_hash TEXT NOT NULL,
  layout TEXT NOT NULL,
  features TEXT NOT NULL,
  shape TEXT NOT NULL
);
INSERT INTO signature VALUES(1,'97be60e3e06b24c0','81594a47704ace24','0.1.0','host:1 limit 8GiB','nam52-tiny','fa1485fb3989229a','lane=spmd zero=1','','batch=8 sequence=64 micro_steps=1 precision=f32');
INSERT INTO signature VALUES(2,'6ec595860ad91ae2','24c4886f97dec6ee','0.1.0','host:1 limit 20MiB','nam52-tiny','fa1485fb3989229a','lane=spmd zero=1','','batch=8 sequence=64 micro_steps=1 precision=f32');
INSERT INTO signature VALUES(3,'f9ea8355c8612ecf','d9867ce6591253ed','0.1.0','host:2 drill chip 1 step 1','nam52-tiny','fa1485fb3989229a','lane=spmd data_parallel=2 zero=1','','batch=8 sequence=64 micro_steps=1 precision=f32');
INSERT INTO signature VALUES(4,'11ca88b261ff0246','0432d5163a8ba254','0.1.0','host:1 limit 8600000','nam52-tiny','fa1485fb3989229a','lane=spmd zero=1','','batch=8 sequence=64 micro_steps=1 precision=f32');
INSERT INTO signature VALUES(5,'c6ce8b626d815461','eed954e853f91eff','0.1.0','host:1 limit 8600000','nam52-tiny','fa1485fb3989229a','lane=spmd zero=1','','batch=4 sequence=64 micro_steps=2 precision=f32');
INSERT INTO signature VALUES(6,'5e4365e984e03555','42719c951214af11','0.1.0','host:2','nam52-tiny','fa1485fb3989229a','lane=fsdp data_parallel=2 zero=3','','batch=8 sequence=64 micro_steps=1 precision=f32');
INSERT INTO signature VALUES(7,'8bd26d0a025a335e','b46d57df52f3163b','0.1.0','host:1','nam52-tiny','fa1485fb3989229a','lane=spmd zero=1','placement=megacpp','batch=8 sequence=64 micro_steps=1 precision=f32');
CREATE TABLE outcome (         -- one launch, or one rung of a launch
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  signature INTEGER NOT NULL REFERENCES signature (id) ON DELETE CASCADE,
  at TEXT NOT NULL,            -- UTC
  fits INTEGER NOT NULL,
  oom_class TEXT NOT NULL,
  stage TEXT NOT NULL,
  rung INTEGER NOT NULL,
  chip TEXT NOT NULL,
  predicted_bytes INTEGER,
  measured_bytes INTEGER,
  limit_bytes INTEGER,
  predicted_seconds REAL,      -- of a step
  measured_seconds REAL,
  note TEXT NOT NULL
);
INSERT INTO outcome VALUES(1,1,'2026-11-16T14:10:05Z',1,'','run',0,'chip 0',10780864,10780864,8589934592,0.030217066894870702604,0.028158925000000001315,'');
INSERT INTO outcome VALUES(2,2,'2026-11-16T14:10:05Z',1,'','run',0,'chip 0',10780864,10780864,20971520,0.030217066894870702604,0.048297320999999997226,'');
INSERT INTO outcome VALUES(3,3,'2026-11-16T14:10:05Z',0,'runtime allocation','run step 1',0,'chip 1: data 1 on host vm',5900672,NULL,12161959936,0.030471858833702389346,NULL,'a drill; activation 2.98 MiB, weight 977.50 KiB, optimizer 977.50 KiB, gradient 488.75 KiB, temporary 256.00 KiB, batch 2.01 KiB, collective 4 B, largest 352.00 KiB dot f32[4,64,352], 352.00 KiB dot f32[4,64,352], 352.00 KiB fused f32[4,64,352]');
INSERT INTO outcome VALUES(4,4,'2026-11-16T14:10:15Z',0,'compile-time HBM','planning',0,'chip 0 at (0) on host 0',10780864,NULL,8600000,0.030217066894870702604,NULL,'activation 6.21 MiB, optimizer 1.91 MiB, weight 977.50 KiB, gradient 977.50 KiB, temporary 256.00 KiB, batch 4.01 KiB, largest 704.00 KiB dot f32[8,64,352], 704.00 KiB dot f32[8,64,352], 704.00 KiB fused f32[8,64,352]');
INSERT INTO outcome VALUES(5,5,'2026-11-16T14:10:15Z',1,'','run',1,'chip 0',7396544,7396544,8600000,0.030241423589655942045,0.043385231000000003265,'');
INSERT INTO outcome VALUES(6,6,'2026-11-16T14:10:15Z',1,'','run',0,'chip 0: data 0',6600128,6600128,24257370688,0.030286557297912183179,0.045062900000000002954,'');
INSERT INTO outcome VALUES(7,7,'2026-11-16T14:10:24Z',1,'','run',0,'chip 0',10780864,NULL,24231612416,0.013672568022670510829,0.049893849999999996536,'');
CREATE TABLE start (           -- settings that worked for a launch that asked for the signature
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  signature INTEGER NOT NULL REFERENCES signature (id) ON DELETE CASCADE,
  at TEXT NOT NULL,
  rung INTEGER NOT NULL,
  settings TEXT NOT NULL,      -- JSON: {"train.batch": "2"}
  reasons TEXT NOT NULL,       -- JSON: ["..."]
  after_outcome INTEGER NOT NULL
);
INSERT INTO start VALUES(1,4,'2026-11-16T14:10:15Z',1,'{"train.batch":"4","train.micro_steps":"2"}','["rung 1 batch      fits        train.batch=4 train.micro_steps=2: 7.05 MiB of 8.20 MiB"]',5);
CREATE TABLE sample (          -- predicted parts against one measured number
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  signature INTEGER NOT NULL REFERENCES signature (id) ON DELETE CASCADE,
  at TEXT NOT NULL,
  lane TEXT NOT NULL,
  quantity TEXT NOT NULL,
  parts TEXT NOT NULL,         -- JSON: {"weights": 1.5e9}
  measured REAL NOT NULL
);
INSERT INTO sample VALUES(1,1,'2026-11-16T14:10:05Z','cpu host','peak bytes','{"activation":6510596,"batch":4104,"gradient":1000960,"optimizer":2001920,"temporary outside blocks":262144,"weight":1000960,"padding":180}',10780864.0);
INSERT INTO sample VALUES(2,1,'2026-11-16T14:10:05Z','cpu host','step seconds','{"compute":0.02914174332841355,"memory":0.001075323566457152,"links":0,"bubble":0}',0.028158925000000001315);
INSERT INTO sample VALUES(3,2,'2026-11-16T14:10:05Z','cpu host','peak bytes','{"activation":6510596,"batch":4104,"gradient":1000960,"optimizer":2001920,"temporary outside blocks":262144,"weight":1000960,"padding":180}',10780864.0);
INSERT INTO sample VALUES(4,2,'2026-11-16T14:10:05Z','cpu host','step seconds','{"compute":0.02914174332841355,"memory":0.001075323566457152,"links":0,"bubble":0}',0.048297320999999997226);
INSERT INTO sample VALUES(5,5,'2026-11-16T14:10:15Z','cpu host','peak bytes','{"activation":3259396,"batch":2056,"gradient":1000960,"optimizer":2001920,"temporary outside blocks":131072,"weight":1000960,"padding":180}',7396544.0);
INSERT INTO sample VALUES(6,5,'2026-11-16T14:10:15Z','cpu host','step seconds','{"compute":0.02914174332841355,"memory":0.0010996802612423895,"links":0,"bubble":0}',0.043385231000000003265);
INSERT INTO sample VALUES(7,6,'2026-11-16T14:10:15Z','cpu host','peak bytes','{"activation":2603008,"batch":2056,"collective":738308,"gradient":500480,"optimizer":1000960,"temporary of E":901632,"temporary outside blocks":262656,"weight":500480,"padding":90548}',6600128.0);
INSERT INTO sample VALUES(8,6,'2026-11-16T14:10:15Z','cpu host','step seconds','{"compute":0.02914174332841355,"memory":0.0010722499910986426,"links":7.256397839999098e-05,"bubble":0}',0.045062900000000002954);
INSERT INTO sample VALUES(9,7,'2026-11-16T14:10:24Z','xla host','step seconds','{"compute":0.013154572041757304,"memory":0.0005179959809132074,"links":0,"bubble":0}',0.049893849999999996536);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('signature',7);
INSERT INTO sqlite_sequence VALUES('outcome',7);
INSERT INTO sqlite_sequence VALUES('sample',9);
INSERT INTO sqlite_sequence VALUES('start',1);
CREATE INDEX outcome_signature ON outcome (signature);
CREATE INDEX start_signature ON start (signature);
CREATE INDEX sample_signature ON sample (signature);
CREATE INDEX sample_lane ON sample (lane, quantity);
COMMIT;
